// A figure of the server, or one of the same shape made from live values.

import type { FigureData } from '../../api/shapes';

export type Figure = FigureData;
export type Series = FigureData['series'][number];

/** A value of a column; NaN if it is absent. */
export const at = (column: readonly (number | null)[], index: number): number => column[index] ?? Number.NaN;

/** Whether anything was measured. */
export const isEmpty = (series: Pick<Series, 'y'>): boolean => !series.y.some((y) => y !== null && Number.isFinite(y));

/** The series with the values at these indices. */
export function picked(series: Series, from: number, to: number): Series {
  const cut = (column: (number | null)[]) => column.slice(from, to);
  const { x, x_end, y, low, high, host_limited } = series;
  return { ...series, x: cut(x), x_end: cut(x_end), y: cut(y), low: cut(low), high: cut(high), host_limited: host_limited.filter((index) => index >= from && index < to).map((index) => index - from) };
}
