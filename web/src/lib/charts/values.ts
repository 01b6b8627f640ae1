// A figure's values as rows, as an alternative to its drawing. Pure.

import { at, type Figure } from './plot/figure';

export interface Row {
  series: string;
  x: number;
  end: number | undefined;
  y: number | undefined;
  low: number | undefined;
  high: number | undefined;
  host_limited: boolean;
}

const finite = (value: number): number | undefined => (Number.isFinite(value) ? value : undefined);

/** At most `most` rows, evenly chosen. */
export function rowsOf(figure: Pick<Figure, 'series'>, most = 200): Row[] {
  const all = figure.series.flatMap((series) =>
    [...series.x.keys()].flatMap((place): Row[] => {
      const x = finite(at(series.x, place));
      if (x === undefined) return [];
      const of = (column: (number | null)[]) => finite(at(column, place));
      return [{ series: series.name, x, end: of(series.x_end), y: of(series.y), low: of(series.low), high: of(series.high), host_limited: series.host_limited.includes(place) }];
    }),
  );
  const step = Math.max(1, Math.ceil(all.length / most));
  return all.filter((_, index) => index % step === 0);
}
