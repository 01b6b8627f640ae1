// Aligns series with different x values on one axis, as uPlot requires.

import type { FigureData } from '../api/shapes';

/** A common ascending x; a series has `undefined` where it has no value, and `null` at a gap. */
export interface Aligned {
  x: number[];
  ys: (number | null)[][];
}

export function alignedOf(figure: Pick<FigureData, 'series' | 'x' | 'y'>): Aligned {
  // Values that a logarithmic axis can't show are omitted.
  const usable = (value: number | null | undefined, log: boolean) => typeof value === 'number' && Number.isFinite(value) && (!log || value > 0);
  const logX = figure.x.scale === 'log';
  const logY = figure.y.scale === 'log';
  const all = new Set<number>();
  for (const series of figure.series) for (const value of series.x) if (usable(value, logX)) all.add(value as number);
  const x = [...all].sort((a, b) => a - b);
  const place = new Map(x.map((value, index) => [value, index]));
  const ys = figure.series.map((series) => {
    const column = new Array<number | null>(x.length).fill(undefined as unknown as null);
    series.x.forEach((value, index) => {
      const at = value === null ? undefined : place.get(value);
      if (at === undefined) return;
      const y = series.y[index];
      column[at] = usable(y, logY) ? (y as number) : null;
    });
    return column;
  });
  return { x, ys };
}
