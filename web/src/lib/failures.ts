/** The reasons of failed runs, each once with its count, in order of their first occurrence. */
export function failures(runs: { id?: string | null; error?: string | null }[]): { words: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const run of runs.filter((one) => !one.id)) {
    const words = run.error ?? 'failed';
    counts.set(words, (counts.get(words) ?? 0) + 1);
  }
  return [...counts].map(([words, count]) => ({ words, count }));
}
