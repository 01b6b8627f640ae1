// Figures of a speed test from its samples, and their description. Pure.

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

export interface Result {
  id?: string;
  at?: string;
  version?: string;
  download?: Throughput;
  upload?: Throughput;
  latency: Latencies;
  /** The server's verdict, as a sentence and as a grade; absent if it could not judge. */
  verdict?: string;
  grade?: 'good' | 'usable' | 'poor';
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

/** The median; absent without values. */
export function median(values: readonly number[]): number | undefined {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

/** Mean absolute difference of consecutive round trips, s; absent with fewer than two. */
export function jitter(values: readonly number[]): number | undefined {
  if (values.length < 2) return undefined;
  let sum = 0;
  for (let index = 1; index < values.length; index += 1) sum += Math.abs((values[index] ?? 0) - (values[index - 1] ?? 0));
  return sum / (values.length - 1);
}

/** The heading for each grade of the server. */
export const GRADES = { good: 'A good connection', usable: 'A usable connection', poor: 'A poor connection' };

/** The server's verdict with a capital letter; absent without one. */
export const sentence = (verdict: string | undefined): string | undefined => (verdict ? verdict.charAt(0).toUpperCase() + verdict.slice(1) : undefined);
