// Figures of a speed test from its samples, and their description. Pure.

import { axis, series } from '../lib/charts/live';
import type { Figure } from '../lib/charts/plot/figure';

export interface Throughput {
  bytes: number;
  seconds: number;
  bits_per_second: number;
}

export interface Latencies {
  idle: number[];
  download: number[];
  upload: number[];
}

export type Grade = 'good' | 'usable' | 'poor';

export interface Result {
  id?: string;
  at?: string;
  version?: string;
  download?: Throughput;
  upload?: Throughput;
  latency: Latencies;
  /** The server's verdict, as a sentence and as a grade; absent if it could not judge. */
  verdict?: string;
  grade?: Grade;
  /** The server's grade for common uses, with the figure that decides it. */
  uses?: { name: string; grade: Grade; reason: string }[];
  /** Rates over time, as the server stored them. */
  curves?: Record<'download' | 'upload', Level[]>;
  /** The server's warnings about the figures. */
  warnings?: { code: string; severity: string; text: string }[];
}

/** Bytes counted until a moment, both from the start of the phase. */
export interface Mark {
  seconds: number;
  bytes: number;
}

/** Initial time that a rate omits because of slow start, s. */
export const RAMP_SECONDS = 1;

/** The rate from the end of the ramp to the last mark; over all marks if there are too few; absent without marks. */
export function throughput(marks: readonly Mark[], ramp = RAMP_SECONDS): Throughput | undefined {
  const last = marks.at(-1);
  if (last === undefined || last.bytes <= 0) return undefined;
  const from = marks.findLast((mark) => mark.seconds <= ramp);
  const begin = from !== undefined && last.seconds - from.seconds >= 0.5 && last.bytes > from.bytes ? from : { seconds: 0, bytes: 0 };
  const seconds = last.seconds - begin.seconds;
  if (seconds <= 0) return undefined;
  const bytes = last.bytes - begin.bytes;
  return { bytes, seconds, bits_per_second: (bytes * 8) / seconds };
}

/** The rate of a stretch of time. */
export interface Level {
  from: number;
  to: number;
  rate: number;
}

/** The levels of the curve: rates between marks that are at least `step` apart. */
export function curve(marks: readonly Mark[], step = 0.2): Level[] {
  const points: Level[] = [];
  let before: Mark = { seconds: 0, bytes: 0 };
  for (const mark of marks) {
    const span = mark.seconds - before.seconds;
    if (span < step) continue;
    points.push({ from: before.seconds, to: mark.seconds, rate: ((mark.bytes - before.bytes) * 8) / span });
    before = mark;
  }
  return points;
}

/** The marks that are at least `step` apart, with the last one. */
export function thinned(marks: readonly Mark[], step = 0.2): Mark[] {
  const kept: Mark[] = [];
  for (const mark of marks) if (mark.seconds - (kept.at(-1)?.seconds ?? 0) >= step) kept.push(mark);
  const last = marks.at(-1);
  if (last !== undefined && last !== kept.at(-1) && last.seconds > (kept.at(-1)?.seconds ?? 0)) kept.push(last);
  return kept;
}

/** A quantile by linear interpolation; absent without values. */
export function quantile(values: readonly number[], of: number): number | undefined {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const place = of * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(place)] ?? 0, sorted[Math.ceil(place)] ?? 0];
  return low + (high - low) * (place - Math.floor(place));
}

/** The median; absent without values. */
export const median = (values: readonly number[]): number | undefined => quantile(values, 0.5);

/** Mean absolute difference of consecutive round trips, s; absent with fewer than two. */
export function jitter(values: readonly number[]): number | undefined {
  if (values.length < 2) return undefined;
  let sum = 0;
  for (let index = 1; index < values.length; index += 1) sum += Math.abs((values[index] ?? 0) - (values[index - 1] ?? 0));
  return sum / (values.length - 1);
}

const PHASES = ['idle', 'download', 'upload'] as const;

/** Every round trip by phase, in the order of pings from left to right, with median and quartiles. */
export function latencyFigure(latency: Latencies): Figure {
  const places = PHASES.flatMap((phase, index) => latency[phase].map((value, nth, all) => ({ x: index + (all.length > 1 ? nth / (all.length - 1) - 0.5 : 0) * 0.6, y: value })));
  const measured = PHASES.flatMap((phase, index) => (latency[phase].length > 0 ? [{ x: index, values: latency[phase] }] : []));
  const of = (share: number) => measured.map(({ values }) => quantile(values, share) ?? null);
  return {
    id: 'round-trips', title: 'Round trips', caption: '', references: [], shades: [],
    x: axis('', 'category', { scale: 'category', categories: ['idle', 'downloading', 'uploading'] }),
    y: axis('', 'seconds'),
    series: [
      series('round trip', 'points', { x: places.map((one) => one.x), y: places.map((one) => one.y), colour: 5 }),
      series('median and quartiles', 'points', { x: measured.map((one) => one.x), y: of(0.5), low: of(0.25), high: of(0.75), colour: 1, heavy: true }),
    ],
  };
}

/** The heading for each grade of the server. */
export const GRADES = { good: 'A good connection', usable: 'A usable connection', poor: 'A poor connection' };

/** The server's verdict with a capital letter; absent without one. */
export const sentence = (verdict: string | undefined): string | undefined => (verdict ? verdict.charAt(0).toUpperCase() + verdict.slice(1) : undefined);
