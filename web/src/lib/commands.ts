/** The arguments of a command, quoted for a shell. */
export function quoted(words: string[]): string {
  return words.map((word) => (/^[A-Za-z0-9\-_=+./:,@%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}

// Flags that belonged to one run only: its control socket, its start time, its labels.
const OWN = ['--json-stream', '--no-store', '--label=', '--control-socket=', '--start-at='];

// Temporary directories of an experiment and of a server.
const PLACES = ['weir-run-', 'weir-ui-'];

/**
 * The command that repeats a run. A run started by a scenario or the API had its plan in such a directory, which
 * distinguishes it from a user's plan: the stored plan is used instead, as on the run's page of `weir report` (`repeating`
 * in crates/report/src/page/run.rs). A run that was not stored has only the plan of its record, to be saved to the named file.
 */
export function repeating(words: string[], id: string): string {
  const plan = words.find((word) => word.startsWith('--plan='))?.slice('--plan='.length) ?? '';
  const place = plan.split('/').at(-2) ?? '';
  if (!PLACES.some((own) => place.startsWith(own))) return quoted(words);
  const file = `${id}.plan.json`;
  const again = quoted(
    words.filter((word) => !OWN.some((own) => word.startsWith(own))).map((word) => (word.startsWith('--plan=') ? `--plan=${file}` : word)),
  );
  if (words.includes('--no-store')) return again;
  return `${quoted([words[0] ?? 'weir', 'runs', 'show', id, '--plan'])} > ${quoted([file])} && ${again}`;
}
