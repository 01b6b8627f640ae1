// The layout of a drawing: the rulers of both axes.

import { at, type Figure } from './figure';
import { axisTitle, estimated, fitted, linear, logarithmic, type Measure, type Unit, unitFor } from './label';
import { clock, log, logRange, Step, widened } from './ticks';

type Axis = Figure['x'];

/** A mark of an axis at a position in the drawing. */
export interface Tick {
  at: number;
  label: string | undefined;
}

/** A range of x that is shown instead of all values. */
export interface Window {
  low: number;
  high: number;
}

/** The range of the values along an axis, and the smallest value above zero. */
interface DataRange {
  low: number;
  high: number;
  positive: number;
}

function rangeOf(values: Iterable<number | null | undefined>): DataRange {
  const range = { low: Infinity, high: -Infinity, positive: Infinity };
  for (const value of values) {
    if (value === null || value === undefined || !Number.isFinite(value)) continue;
    range.low = Math.min(range.low, value);
    range.high = Math.max(range.high, value);
    if (value > 0) range.positive = Math.min(range.positive, value);
  }
  return range.low > range.high ? { low: 0, high: 1, positive: 1 } : range;
}

function* across(figure: Figure): Iterable<number | null | undefined> {
  for (const { x, x_end, y } of figure.series) {
    for (let index = 0; index < x.length; index += 1) {
      if (!Number.isFinite(at(y, index))) continue;
      yield x[index];
      yield x_end[index];
    }
  }
  for (const one of figure.references) if (one.place === 'vertical') yield one.at;
  for (const shade of figure.shades) yield* shade;
}

function* up(figure: Figure): Iterable<number | null | undefined> {
  for (const { y, low, high } of figure.series) {
    for (let index = 0; index < y.length; index += 1) {
      if (!Number.isFinite(at(y, index))) continue;
      yield y[index];
      yield low[index];
      yield high[index];
    }
  }
  for (const one of figure.references) if (one.place === 'horizontal') yield one.at;
}

/** The upper end of an axis if all values are zero. */
const endIfAllZero = (quantity: string) => (quantity === 'ratio' ? 0.01 : quantity === 'seconds' ? 1e-6 : 1);

/** Maps values of one axis to positions in the drawing. */
export class Ruler {
  readonly #low: number;
  readonly #high: number;
  readonly #log: boolean;
  readonly #from: number;
  readonly #to: number;
  /** Positions outside are clamped to the ends, unless only a part of the values is shown. */
  readonly #clamped: boolean;
  ticks: Tick[] = [];
  /** The axis' name with its unit. */
  title = '';
  /** The unit of all its marks; absent if each has its own. */
  unit: Unit | undefined;

  private constructor(low: number, high: number, isLog: boolean, from: number, to: number, isClamped = true) {
    this.#low = low;
    this.#high = high;
    this.#log = isLog;
    this.#from = from;
    this.#to = to;
    this.#clamped = isClamped;
  }

  /** The horizontal ruler between two positions; `wanted` is the approximate number of marks. */
  static across(figure: Figure, from: number, to: number, wanted = 7, window?: Window, measure: Measure = estimated): Ruler {
    if (figure.x.scale === 'category') return Ruler.#names(figure.x, from, to, measure);
    if (window !== undefined) return Ruler.#part(figure.x, window, from, to, wanted);
    // Dots must not lie on the frame.
    const hasDots = figure.series.some(({ mark }) => mark === 'points' || mark === 'curve');
    const inset = hasDots && !figure.x.from_zero ? 8 : 0;
    return Ruler.#of(figure.x, rangeOf(across(figure)), from + inset, to - inset, wanted, false);
  }

  /** The vertical ruler; `bottom` is greater than `top`. */
  static up(figure: Figure, bottom: number, top: number, wanted = 5): Ruler {
    return Ruler.#of(figure.y, rangeOf(up(figure)), bottom, top, wanted, true);
  }

  static #of(axis: Axis, range: DataRange, from: number, to: number, wanted: number, isRound: boolean): Ruler {
    if (axis.scale === 'log') {
      // No value above zero: use any decade.
      const positive = Number.isFinite(range.positive) ? range.positive : 0.1;
      const [low, high] = logRange(positive, Math.max(range.high, positive));
      const ruler = new Ruler(Math.log10(low), Math.log10(high), true, from, to);
      ruler.#logTicks(axis, low, high, wanted);
      return ruler;
    }
    let [low, high] = [range.low, range.high];
    if (axis.from_zero && low === 0 && high === 0) high = endIfAllZero(axis.quantity);
    else if (axis.from_zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    return Ruler.#linear(axis, low, high, from, to, wanted, isRound);
  }

  /** A ruler from exactly `window.low` to `window.high`. */
  static #part(axis: Axis, { low, high }: Window, from: number, to: number, wanted: number): Ruler {
    if (axis.scale !== 'log') return Ruler.#linear(axis, low, high, from, to, wanted, false, false);
    const ruler = new Ruler(Math.log10(low), Math.log10(high), true, from, to, false);
    ruler.#logTicks(axis, low, high, wanted);
    if (ruler.ticks.filter((tick) => tick.label !== undefined).length >= 2) return ruler;
    // A small part of a decade has linear marks.
    const unit = unitFor(axis.quantity, high);
    const { marks, decimals } = new Step(low / unit.factor, high / unit.factor, wanted).marks(low / unit.factor, high / unit.factor);
    return ruler.#marked(axis, unit, marks, decimals);
  }

  #logTicks(axis: Axis, low: number, high: number, wanted: number): void {
    this.title = axis.label;
    this.ticks = log(low, high, wanted).map(({ value, major }) => ({ at: this.place(value), label: major ? logarithmic(value, axis.quantity) : undefined }));
  }

  static #linear(axis: Axis, least: number, most: number, from: number, to: number, wanted: number, isRound: boolean, isClamped = true): Ruler {
    const [low, high] = widened(least, most);
    if (axis.quantity === 'unix_seconds') {
      const ruler = new Ruler(low, high, false, from, to, isClamped);
      ruler.title = axis.label;
      ruler.ticks = clock(low, high, wanted).map(({ value, label }) => ({ at: ruler.place(value), label }));
      return ruler;
    }
    const unit = unitFor(axis.quantity, Math.max(Math.abs(low), Math.abs(high)));
    let [bottom, top] = [low / unit.factor, high / unit.factor];
    // Counts have whole marks only.
    const whole = Math.min(Math.max(Math.ceil(top - bottom), 1), 9);
    const step = new Step(bottom, top, axis.quantity === 'count' ? Math.min(wanted, whole) : wanted);
    if (isRound) {
      bottom = Math.floor(bottom / step.length + 1e-9) * step.length;
      top = Math.ceil(top / step.length - 1e-9) * step.length;
    }
    const { marks, decimals } = step.marks(bottom, top);
    const ruler = new Ruler(bottom * unit.factor, top * unit.factor, false, from, to, isClamped);
    return ruler.#marked(axis, unit, marks, decimals);
  }

  #marked(axis: Axis, unit: Unit, marks: readonly number[], decimals: number): this {
    this.title = axisTitle(axis.label, unit.symbol);
    this.unit = unit;
    this.ticks = marks.map((mark) => ({ at: this.place(mark * unit.factor), label: linear(mark, decimals) }));
    return this;
  }

  /** The ruler of an axis of names: position n is the middle of the nth of equal parts. */
  static #names(axis: Axis, from: number, to: number, measure: Measure): Ruler {
    const count = Math.max(1, axis.categories.length);
    const band = (to - from) / count;
    // If there is no room for 5 characters of each name, show every nth name.
    const nth = Math.max(1, Math.ceil(measure('nnnnn') / band));
    const ruler = new Ruler(-0.5, count - 0.5, false, from, to);
    ruler.title = axis.label;
    axis.categories.forEach((name, index) => {
      if (index % nth === 0) ruler.ticks.push({ at: ruler.place(index), label: fitted(name, band * nth - 4, measure) });
    });
    return ruler;
  }

  /** The position of a value in the drawing. */
  place(value: number): number {
    const scaled = this.#log ? Math.log10(Math.max(value, 1e-300)) : value;
    const fraction = (scaled - this.#low) / (this.#high - this.#low);
    return this.#from + (this.#clamped ? Math.min(Math.max(fraction, 0), 1) : fraction) * (this.#to - this.#from);
  }

  /** The value at a position. */
  valueAt(place: number): number {
    const scaled = this.#low + ((place - this.#from) / (this.#to - this.#from)) * (this.#high - this.#low);
    return this.#log ? 10 ** scaled : scaled;
  }

  /** The position of zero, or of the end nearest to it, from which bars are drawn. */
  get floor(): number {
    return this.#log ? this.#from : this.place(0);
  }

  /** The values at both ends. */
  get ends(): [number, number] {
    return this.#log ? [10 ** this.#low, 10 ** this.#high] : [this.#low, this.#high];
  }

  /** The width of one of the parts of an axis of names. */
  get band(): number {
    return Math.abs((this.#to - this.#from) / (this.#high - this.#low));
  }
}
