// Distinct labels of axes, their width, and the colours of lines. Pure.

import { type Figure, text } from '../format';

/** Formats a value; `extra` is the number of additional digits. */
export type Format = (value: number, extra?: number) => Figure;

/** Number of distinguishable colours (`--series-1` to `--series-16`). */
export const COLOURS = 16;

/** The colour of a line, from 1, and whether it is dashed since an earlier line has that colour. */
export const strokeOf = (index: number): { colour: number; dash: boolean } => ({ colour: (index % COLOURS) + 1, dash: index >= COLOURS });

const MOST_EXTRA = 6;

/** Labels of an axis, with enough digits to differ; a repeated one is omitted. */
export function labelsOf(splits: readonly (number | null)[], write: (value: number, extra: number) => string): string[] {
  for (let extra = 0; ; extra += 1) {
    const labels = splits.map((split) => (split === null ? '' : write(split, extra)));
    const shown = labels.filter((label) => label !== '');
    if (new Set(shown).size === shown.length) return labels;
    if (extra === MOST_EXTRA) return labels.map((label, index) => (labels.indexOf(label) === index ? label : ''));
  }
}

/** A figure as an axis writes it. */
export const written = (format: Format) => (value: number, extra: number): string => text(format(value, extra));

/** How far bars at these ascending positions extend beyond the first and the last: half of the minimum distance. */
export function barReach(x: readonly number[]): number {
  let least = Infinity;
  for (let index = 1; index < x.length; index += 1) least = Math.min(least, (x[index] ?? 0) - (x[index - 1] ?? 0));
  return least > 0 && Number.isFinite(least) ? least / 2 : 0.5;
}

/**
 * The range of a logarithmic axis around positive values. Its lower end has one significant digit: uPlot counts ticks from
 * there, and loops forever if rounding moves the first one beyond a power of ten (from 9.5 to 11).
 */
export function logRange(least: number, most: number): [number, number] {
  const low = least < most ? least : least / 2;
  const power = 10 ** Math.floor(Math.log10(low));
  return [Number((Math.max(1, Math.floor(low / power)) * power).toPrecision(1)), least < most ? most : most * 2];
}
