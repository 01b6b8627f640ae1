// The marks of an axis: round numbers, few enough to read.

/** Values are clamped to this magnitude, so that sums and differences of two of them are finite. */
const FAR = 1e300;

const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);

/** An integer power of ten, exactly rounded; `10 ** n` is not in every browser. */
const power = (exponent: number): number => Number(`1e${exponent}`);

/** The marks of a linear axis, and the number of decimals that distinguishes them. */
export interface Linear {
  marks: number[];
  decimals: number;
}

/** A range with finite ends and a length above zero. */
export function widened(from: number, to: number): [number, number] {
  const [a, b] = [clamp(from, -FAR, FAR), clamp(to, -FAR, FAR)];
  const [low, high] = [Math.min(a, b), Math.max(a, b)];
  const scale = Math.max(Math.abs(low), Math.abs(high));
  if (high - low > scale * 1e-9 && high - low > 1e-300) return [low, high];
  return scale < 1e-290 ? [0, 1] : [low - scale * 0.1, high + scale * 0.1];
}

/** The distance of marks: 1, 2 or 5 times a power of ten. */
export class Step {
  readonly #mantissa: number;
  readonly #exponent: number;

  /** The step that makes about `wanted` marks between two numbers. */
  constructor(from: number, to: number, wanted: number) {
    const [low, high] = widened(from, to);
    const raw = (high - low) / Math.max(1, wanted);
    const exponent = Math.floor(Math.log10(raw));
    // A value slightly above a round number uses that number.
    const mantissa = raw / power(exponent);
    this.#mantissa = mantissa <= 1.1 ? 1 : mantissa <= 2.2 ? 2 : mantissa <= 5.5 ? 5 : 1;
    this.#exponent = mantissa <= 5.5 ? exponent : exponent + 1;
  }

  get length(): number {
    return this.#mantissa * power(this.#exponent);
  }

  /** Its multiples between two numbers. */
  marks(from: number, to: number): Linear {
    const [low, high] = widened(from, to);
    const step = this.length;
    // Include marks that are slightly outside because of rounding.
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    const marks: number[] = [];
    // Dividing by a power of ten gives the float nearest to a decimal fraction; multiplying by its inverse does not.
    const scale = power(-this.#exponent);
    for (let index = 0; index <= 64 && first + index <= last; index += 1) {
      const multiple = first + index;
      marks.push((this.#exponent < 0 ? (multiple * this.#mantissa) / scale : multiple * step) + 0);
    }
    return { marks, decimals: clamp(-this.#exponent, 0, 12) };
  }
}

/** The power of ten at or below a positive number. */
const decade = (value: number): number => power(Math.floor(Math.log10(value) + 1e-12));

/** Ends of a logarithmic axis: 1, 2 or 5 times powers of ten, or only powers of ten if it spans more than four of them. */
export function logRange(from: number, to: number): [number, number] {
  const low = clamp(from, 1e-290, 1e290);
  const high = clamp(to, low, 1e290);
  let [down, up] = [decade(low), decade(high)];
  if (up * (1 + 1e-9) < high) up *= 10;
  if (up / down < 15_000) {
    const lower = [5, 2].find((times) => down * times <= low * (1 + 1e-9));
    if (lower !== undefined) down *= lower;
    const upper = [0.2, 0.5].find((times) => up * times >= high * (1 - 1e-9) && up * times > down * 1.5);
    if (upper !== undefined) up *= upper;
  }
  return [down, up <= down * 1.5 ? down * 10 : up];
}

/** A mark of a logarithmic axis; a major one has a label. */
export interface LogMark {
  value: number;
  major: boolean;
}

/** Marks at powers of ten and, if there is room, at 2 and 5 times these, with at most `most` labels. */
export function log(low: number, high: number, most: number): LogMark[] {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.min(Math.floor(Math.log10(high) + 1e-9), first + 699);
  const span = Math.log10(high / low);
  const areAllLabelled = span * 3 <= most;
  // Every nth power of ten has a label.
  const nth = Math.max(1, Math.ceil(span / Math.max(1, most)));
  const marks: LogMark[] = [];
  for (let exponent = first; exponent <= last; exponent += 1) {
    for (const times of [1, 2, 5]) {
      const value = power(exponent) * times;
      const isInside = value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
      if (isInside && (times === 1 || span <= 6)) marks.push({ value, major: areAllLabelled || (times === 1 && exponent % nth === 0) });
    }
  }
  return marks;
}

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
/** Distances of the marks of a time axis, s. */
const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 7 * DAY, 30 * DAY];

/** A mark of a time axis, s since 1970. */
export interface ClockMark {
  value: number;
  label: string;
}

/** About `most` marks at round times of this browser's time zone: times of day, or dates at midnight. */
export function clock(low: number, high: number, most: number): ClockMark[] {
  const step = CLOCK_STEPS.find((one) => (high - low) / one <= most) ?? Math.ceil((high - low) / most / DAY) * DAY;
  const two = (n: number) => String(n).padStart(2, '0');
  const offset = new Date(low * 1000).getTimezoneOffset() * MINUTE;
  const marks: ClockMark[] = [];
  for (let value = Math.ceil((low - offset) / step - 1e-9) * step + offset; value <= high && marks.length < 64; value += step) {
    const at = new Date(value * 1000);
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0;
    const time = `${two(at.getHours())}:${two(at.getMinutes())}${step < MINUTE ? `:${two(at.getSeconds())}` : ''}`;
    marks.push({ value, label: isMidnight || step >= DAY ? `${two(at.getMonth() + 1)}-${two(at.getDate())}` : time });
  }
  return marks;
}
