// Charts of a pair of agents over time. Pure.

import type { PairHistory } from './api/shapes';
import { axis, series } from './charts/live';
import type { Figure, Series } from './charts/plot/figure';
import { percent, seconds, text } from './format';

type Point = PairHistory['points'][number];
type Change = PairHistory['changes'][number];

const time = (): Figure['x'] => axis('Time', 'unix_seconds', { key: 'at_unix_seconds', from_zero: false });

type Value = (point: Point) => number | null | undefined;

/** A level over each point, with a band of an error around it. Times without figures are gaps. */
function levels({ points, point_seconds: length }: PairHistory, name: string, of: Value, error?: Value): Series {
  const made = series(name, 'step', { x: [], y: [], ...(error && { spread: 'band' }) });
  const add = (from: number, to: number, value: number | null, around: number | null) => {
    made.x.push(from);
    made.x_end.push(to);
    made.y.push(value);
    if (error === undefined) return;
    made.low.push(value === null || around === null ? null : value - around);
    made.high.push(value === null || around === null ? null : value + around);
  };
  let end = points[0]?.at_unix_seconds ?? 0;
  for (const point of points) {
    const { at_unix_seconds: at } = point;
    if (at > end) add(end, at, null, null);
    end = at + length;
    add(at, end, of(point) ?? null, error?.(point) ?? null);
  }
  return made;
}

const hasValues = (one: Series) => one.y.some((value) => value !== null);

/** A line at each change, with what changed. */
const marks = (changes: readonly Change[]): Figure['references'] =>
  changes.map((change) => ({ name: changeText(change), place: 'vertical', at: change.at_unix_seconds }));

/** `10.00 ms → 20.00 ms` */
export function changeText({ figure, before, after }: Pick<Change, 'figure' | 'before' | 'after'>): string {
  const one = (value: number) => text(figure === 'loss' ? percent(value) : seconds(value));
  return `${one(before)} → ${one(after)}`;
}

function figure(id: string, title: string, caption: string, y: Figure['y'], lines: Series[], references: Figure['references'] = []): Figure {
  return { id, title, caption, x: time(), y, series: lines.filter((one, index) => index === 0 || hasValues(one)), references, shades: [], labels: 'legend' };
}

/** Loss, round trip, one-way delay and, where bursts were measured, their rates. */
export function figuresOf(history: PairHistory): Figure[] {
  const { from, to, points, point_seconds: length } = history;
  const of = (kind: Change['figure']) => marks(history.changes.filter((change) => change.figure === kind));
  const each = length === 60 ? 'each minute' : `${length / 60} minutes together`;
  const made = [
    figure(`loss-${length}`, 'Loss', `Probes that did not come back, there and back together, ${each}.`, axis('Loss', 'ratio'), [levels(history, 'loss', (point) => point.loss_ratio)], of('loss')),
    figure(
      `round-trip-${length}`,
      'Round trip',
      length === 60 ? 'Percentiles of each minute, where it has enough probes.' : `Mean and largest value of ${each}: percentiles of minutes do not add up.`,
      axis('Round trip', 'seconds', { from_zero: false }),
      length === 60
        ? [
            levels(history, 'median', (point) => point.round_trip?.p50_seconds),
            levels(history, '90 %', (point) => point.round_trip?.p90_seconds),
            levels(history, '99 %', (point) => point.round_trip?.p99_seconds),
          ]
        : [levels(history, 'mean', (point) => point.round_trip?.mean_seconds), levels(history, 'largest', (point) => point.round_trip?.max_seconds)],
      of('round-trip'),
    ),
  ];
  const errors = points.flatMap((point) => (typeof point.one_way_error_seconds === 'number' ? [point.one_way_error_seconds] : []));
  if (errors.length > 0) {
    const error: Value = (point) => point.one_way_error_seconds;
    // Without its error, a one-way delay is no figure.
    const way = (name: string, of: Value) => levels(history, name, (point) => (typeof error(point) === 'number' ? of(point) : null), error);
    const largest = errors.reduce((a, b) => Math.max(a, b), 0);
    made.push(
      figure(`one-way-${length}`, 'One-way delay', `Means, ${each}, with the bound of their error as a band: at most ± ${text(seconds(largest))}.`, axis('One-way delay', 'seconds', { from_zero: false }), [way(`${from} → ${to}`, (point) => point.forward_delay_seconds), way(`${to} → ${from}`, (point) => point.return_delay_seconds)], of('round-trip')),
    );
  }
  const bursts = history.bursts.filter((burst) => typeof burst.bits_per_second === 'number');
  if (bursts.length > 0) {
    const rates = [[from, to], [to, from]].map(([source, target]) => {
      const mine = bursts.filter((burst) => burst.from === source && burst.to === target);
      return series(`${source} → ${target}`, 'points', { x: mine.map((burst) => burst.at_unix_seconds), y: mine.map((burst) => burst.bits_per_second ?? null) });
    });
    made.push({ ...figure('rate', 'Rate of bursts', 'Payload rate at the receiver.', axis('Rate', 'bits_per_second'), rates.filter(hasValues)) });
  }
  return made;
}
