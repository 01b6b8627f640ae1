// Marks of a report's figure other than lines: intervals, ranges, references, omitted and host-limited values. Pure.

import type { FigureData } from '../api/shapes';

type Shown = Pick<FigureData, 'series' | 'x' | 'y' | 'references' | 'shades'>;

export interface Marks {
  /** Ranges of x that the totals leave out. */
  shades: [number, number][];
  references: { place: string; at: number | undefined; name: string }[];
  /** Ends of an interval around a value, by series. */
  whiskers: { series: number; x: number; low: number; high: number }[];
  /** Levels over ranges of x, by series; bars are filled down to the axis. */
  spans: { series: number; from: number; to: number; y: number; filled: boolean; /** The previous level, if its range ends where this one starts. */ riser: number | undefined }[];
  /** Values that a warning marks as limited by the host. */
  host_limited: { series: number; x: number; y: number }[];
}

const is = (value: number | null | undefined): value is number => typeof value === 'number' && Number.isFinite(value);

/** Position of a level's name, in pixels from the top: above its line, or below if it would be outside the plot. */
export function baselineOf(line: number, top: number, ratio: number): number {
  const above = line - 4 * ratio;
  return above - 11 * ratio < top ? line + 13 * ratio : above;
}

/** All marks, and their range, which the axes must include. */
export function marksOf(figure: Shown): Marks & { least: { x: number; y: number }; most: { x: number; y: number } } {
  const log = { x: figure.x.scale === 'log', y: figure.y.scale === 'log' };
  const usable = (value: number | null | undefined, way: 'x' | 'y'): value is number => is(value) && (!log[way] || value > 0);
  const marks: Marks = { shades: [], references: [], whiskers: [], spans: [], host_limited: [] };
  const least = { x: Infinity, y: Infinity };
  const most = { x: -Infinity, y: -Infinity };
  const reach = (way: 'x' | 'y', value: number) => {
    least[way] = Math.min(least[way], value);
    most[way] = Math.max(most[way], value);
  };
  for (const [from, to] of figure.shades ?? []) if (usable(from, 'x') && usable(to, 'x')) marks.shades.push([from, to]);
  for (const one of figure.references ?? []) {
    const at = one.at ?? undefined;
    const way = one.place === 'vertical' ? 'x' : 'y';
    if (one.place !== 'diagonal' && !usable(at, way)) continue;
    marks.references.push({ place: one.place, at, name: one.name });
    if (is(at)) reach(way, at);
  }
  for (const [index, series] of figure.series.entries()) {
    const filled = series.mark === 'bars' || series.mark === 'area';
    let before: { to: number; y: number } | undefined;
    for (const [place, x] of series.x.entries()) {
      const [y, end, low, high] = [series.y[place], series.x_end[place], series.low[place], series.high[place]];
      if (!usable(x, 'x')) continue;
      const stretch = usable(end, 'x') && end > x;
      if (stretch) reach('x', end);
      const middle = stretch ? (x + end) / 2 : x;
      if (stretch && usable(y, 'y') && (filled || series.mark === 'step')) {
        const isJoined = series.mark !== 'bars' && before !== undefined && Math.abs(x - before.to) <= 1e-9 * Math.max(1, Math.abs(x));
        marks.spans.push({ series: index, from: x, to: end, y, filled, riser: isJoined ? before?.y : undefined });
        before = { to: end, y };
      } else before = undefined;
      if (usable(low, 'y') && usable(high, 'y')) {
        marks.whiskers.push({ series: index, x: middle, low, high });
        reach('y', low);
        reach('y', high);
      }
      if (usable(y, 'y') && series.host_limited.includes(place)) marks.host_limited.push({ series: index, x: middle, y });
    }
  }
  return { ...marks, least, most };
}

/** A figure's values as rows, as an alternative to its drawing: at most `most` rows, evenly chosen. */
export function rowsOf(figure: Shown, most = 200): { series: string; x: number; end: number | undefined; y: number | null; low: number | undefined; high: number | undefined; host_limited: boolean }[] {
  const all = figure.series.flatMap((series) =>
    series.x.flatMap((x, place) => {
      if (!is(x)) return [];
      const [end, low, high] = [series.x_end[place], series.low[place], series.high[place]];
      const y = series.y[place];
      return [{ series: series.name, x, end: is(end) ? end : undefined, y: is(y) ? y : null, low: is(low) ? low : undefined, high: is(high) ? high : undefined, host_limited: series.host_limited.includes(place) }];
    }),
  );
  const step = Math.max(1, Math.ceil(all.length / most));
  return all.filter((_, index) => index % step === 0);
}
