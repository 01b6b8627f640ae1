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
  /** The server's judgement, in a sentence and in a word; absent where it could not judge. */
  verdict?: string;
  grade?: 'good' | 'usable' | 'poor';
  /** What the server has to say of the figures. */
  warnings?: { code: string; severity: string; text: string }[];
}

/** Bytes counted until a moment, both from the start of the phase. */
export interface Mark {
  seconds: number;
  bytes: number;
}

/** How long the slow start is left out of a rate, s. */
export const RAMP_SECONDS = 1;

/** The rate between the end of the ramp and the last mark; with too few marks over all of them; absent without any. */
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

/** Rate between each two marks that are at least `step` apart: what the curve shows. */
export function curve(marks: readonly Mark[], step = 0.2): { at: number; rate: number }[] {
  const points: { at: number; rate: number }[] = [];
  let before: Mark = { seconds: 0, bytes: 0 };
  for (const mark of marks) {
    const span = mark.seconds - before.seconds;
    if (span < step) continue;
    points.push({ at: mark.seconds, rate: ((mark.bytes - before.bytes) * 8) / span });
    before = mark;
  }
  return points;
}

/** The middle value; absent without any. */
export function median(values: readonly number[]): number | undefined {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

/** Mean difference of one round trip to the next, s; absent below two. */
export function jitter(values: readonly number[]): number | undefined {
  if (values.length < 2) return undefined;
  let sum = 0;
  for (let index = 1; index < values.length; index += 1) sum += Math.abs((values[index] ?? 0) - (values[index - 1] ?? 0));
  return sum / (values.length - 1);
}

/** The word of the server's grade as a heading. */
export const GRADES = { good: 'A good connection', usable: 'A usable connection', poor: 'A poor connection' };

/** The server's sentence, capitalised; absent without one. */
export const sentence = (verdict: string | undefined): string | undefined => (verdict ? verdict.charAt(0).toUpperCase() + verdict.slice(1) : undefined);
