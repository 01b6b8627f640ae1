/** The words of a command as a shell takes them. */
export function quoted(words: string[]): string {
  return words.map((word) => (/^[A-Za-z0-9\-_=+./:,@%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}

// What belonged to one run: where it told of itself, when it started, what it was labelled.
const OWN = ['--json-stream', '--no-store', '--label=', '--control-socket=', '--start-at='];

/**
 * The command that repeats a run. One that another program started had its plan in a file that was gone with the run: the store's
 * plan stands in for it, as on the run's page of `weir report`.
 */
export function repeating(words: string[], id: string): string {
  if (!words.includes('--json-stream') || !words.some((word) => word.startsWith('--plan='))) return quoted(words);
  const again = words
    .filter((word) => !OWN.some((own) => word.startsWith(own)))
    .map((word) => (word.startsWith('--plan=') ? '--plan=plan.json' : word));
  return `${quoted([words[0] ?? 'weir', 'runs', 'show', id, '--plan'])} > plan.json && ${quoted(again)}`;
}
