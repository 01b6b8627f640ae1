/** The words of a command as a shell takes them. */
export function quoted(words: string[]): string {
  return words.map((word) => (/^[A-Za-z0-9\-_=+./:,@%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}

// What belonged to one run: its control socket, when it started, what it was labelled.
const OWN = ['--json-stream', '--no-store', '--label=', '--control-socket=', '--start-at='];

// Directories that an experiment and a server make for themselves, and remove.
const PLACES = ['weir-run-', 'weir-ui-'];

/**
 * The command that repeats a run. A run started by a scenario or the API had its plan in such a directory, which shows
 * from a plan of a person's own: the stored plan is used instead, as on the run's page of `weir report` (`repeating` of
 * crates/report/src/page/run.rs). A run that was not stored has only the plan of its record, to be saved to the named file.
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
