// The values of a figure at a position, for the tooltip and the keyboard. Pure.

import { at, type Figure, isEmpty, type Series } from './plot/figure';
import type { Box } from './plot/draw';
import type { Ruler } from './plot/layout';

/** Maximum distance of a point from the shown position, in pixels. */
const NEAR = 6;

/** A value of one series. */
export interface Reading {
  /** Index of the series. */
  index: number;
  name: string;
  /** Absent: the series has no value here. */
  y: number | undefined;
  low: number | undefined;
  high: number | undefined;
  host_limited: boolean;
}

export interface Probe {
  /** Position in the drawing. */
  place: number;
  x: number;
  /** The end of the range of x. */
  end: number | undefined;
  readings: Reading[];
}

const hasRanges = (series: Series): boolean => series.x_end.length > 0;

/** The value of a series nearest to a position, and its distance: 0 within a range. */
function nearest(series: Series, ruler: Ruler, place: number): { index: number; distance: number } | undefined {
  let best: { index: number; distance: number } | undefined;
  for (let index = 0; index < series.x.length; index += 1) {
    if (!Number.isFinite(at(series.x, index))) continue;
    const from = ruler.place(at(series.x, index));
    const end = at(series.x_end, index);
    const to = hasRanges(series) && Number.isFinite(end) ? ruler.place(end) : from;
    const distance = place < from ? from - place : place > to ? place - to : 0;
    // Where a range ends, the next one begins.
    if (best === undefined || distance < best.distance || (distance === 0 && hasRanges(series))) best = { index, distance };
  }
  return best;
}

const value = (column: readonly (number | null)[], index: number): number | undefined => {
  const found = column[index];
  return typeof found === 'number' && Number.isFinite(found) ? found : undefined;
};

/** All values at a position; absent if there are none. */
export function probe(figure: Figure, ruler: Ruler, place: number): Probe | undefined {
  const series = figure.series.map((one) => (isEmpty(one) ? undefined : nearest(one, ruler, place)));
  let first: number | undefined;
  for (const [index, one] of series.entries()) if (one !== undefined && (first === undefined || one.distance < (series[first]?.distance ?? Infinity))) first = index;
  const [lead, found] = first === undefined ? [undefined, undefined] : [figure.series[first], series[first]];
  if (lead === undefined || found === undefined) return undefined;
  const [x, end] = [at(lead.x, found.index), value(lead.x_end, found.index)];
  const shown = hasRanges(lead) && found.distance === 0 ? place : ruler.place(x);
  const readings = figure.series.flatMap((one, index): Reading[] => {
    if (isEmpty(one)) return [];
    const near = nearest(one, ruler, shown);
    const place = near === undefined || near.distance > NEAR ? -1 : near.index;
    return [{ index, name: one.name, y: value(one.y, place), low: value(one.low, place), high: value(one.high, place), host_limited: one.host_limited.includes(place) }];
  });
  return { place: shown, x, end, readings };
}

/** Positions with a value within the plot, ascending. */
export function stops(figure: Figure, ruler: Ruler, { left, right }: Box): number[] {
  const all = new Set<number>();
  for (const one of figure.series) {
    for (let index = 0; index < one.x.length; index += 1) {
      const [x, end] = [value(one.x, index), value(one.x_end, index)];
      if (x === undefined) continue;
      const place = end === undefined ? ruler.place(x) : (ruler.place(x) + ruler.place(end)) / 2;
      if (place >= left && place <= right) all.add(Math.round(place * 10) / 10);
    }
  }
  return [...all].sort((a, b) => a - b);
}
