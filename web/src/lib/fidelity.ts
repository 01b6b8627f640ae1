// The verdict on a flow of the emulator in words: the figures that it covers, and the stages that it does not.
import type { Fidelity, JudgedFigure } from './api/shapes';
import { seconds, text } from './format';

const name = (figure: JudgedFigure) => figure.figure.replace(/_seconds$/, '').replaceAll('_', ' ');
const named = (verdict: string, of: string[]) => [verdict, of.join(', ')].filter(Boolean).join(': ');

/** The verdict with what it is about; a dash without one. */
export function verdict(of: Fidelity | null | undefined): string {
  if (!of) return '–';
  const uncovered = named('not judged', of.not_judged ?? []);
  if (of.verdict === 'not-judged') return uncovered;
  const isAsked = of.verdict === 'as-asked';
  const figures = (of.figures ?? []).filter((figure) => figure.is_within === isAsked).map(name);
  const covered = named(isAsked ? 'as asked' : of.verdict, figures);
  return of.not_judged?.length ? `${covered}; ${uncovered}` : covered;
}

/** The judged figures with their bounds, one a line. */
export const bounds = (of: Fidelity | null | undefined) =>
  (of?.figures ?? []).map((one) => `${name(one)}${one.figure === 'late_packets' ? ` by more than ${text(seconds(of?.late_limit_seconds))}` : ''}: ${one.value}, ${one.is_within ? 'within' : 'outside of'} ${one.min} to ${one.max}`).join('\n');
