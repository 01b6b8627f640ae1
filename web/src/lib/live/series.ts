// The recent history of figures, in rings of fixed size.

/** The column of a series' time, by which its rows are ordered. */
const TIME = 'at';
/** Columns of double precision, since times are compared with those of other series. */
const TIMES = [TIME, 'from'];

/** The last `capacity` values of several columns that share one time axis. */
export class Series {
  readonly columns: readonly string[];
  readonly capacity: number;
  #values: (Float32Array | Float64Array)[];
  #length = 0;
  #next = 0;

  constructor(columns: readonly string[], capacity = 600) {
    this.columns = columns;
    this.capacity = capacity;
    this.#values = columns.map((name) => (TIMES.includes(name) ? new Float64Array(capacity) : new Float32Array(capacity)));
  }

  get length(): number {
    return this.#length;
  }

  clear(): void {
    this.#length = 0;
    this.#next = 0;
  }

  /** Adds a row; an absent figure is a gap, never a zero. A row with a known time replaces the earlier one; a new row with an older time is ignored. */
  push(row: readonly (number | null | undefined)[]): void {
    const place = this.#placeOf(row[this.columns.indexOf(TIME)]);
    if (place === undefined) return;
    for (const [index, column] of this.#values.entries()) column[place] = row[index] ?? Number.NaN;
    if (place !== this.#next) return;
    this.#next = (this.#next + 1) % this.capacity;
    this.#length = Math.min(this.#length + 1, this.capacity);
  }

  /** The index for a row of this time. */
  #placeOf(at: number | null | undefined): number | undefined {
    const times = this.#values[this.columns.indexOf(TIME)];
    if (times === undefined || typeof at !== 'number') return this.#next;
    for (let back = 1; back <= this.#length; back += 1) {
      const place = (this.#next - back + this.capacity) % this.capacity;
      const known = times[place] ?? Number.NaN;
      if (known === at) return place;
      if (known < at) return back === 1 ? this.#next : undefined;
    }
    return this.#length === 0 ? this.#next : undefined;
  }

  /** A column, oldest first, with `null` for gaps. */
  column(name: string): (number | null)[] {
    const values = this.#values[this.columns.indexOf(name)];
    if (values === undefined) return [];
    const first = (this.#next - this.#length + this.capacity) % this.capacity;
    return Array.from({ length: this.#length }, (_, step) => {
      const value = values[(first + step) % this.capacity];
      return value === undefined || Number.isNaN(value) ? null : value;
    });
  }

  /** The newest value of a column. */
  last(name: string): number | undefined {
    if (this.#length === 0) return undefined;
    const value = this.#values[this.columns.indexOf(name)]?.[(this.#next - 1 + this.capacity) % this.capacity];
    return value === undefined || Number.isNaN(value) ? undefined : value;
  }
}
