// The recent past of a figure, in memory that does not grow: a ring of numbers.

/** The last `capacity` values of several columns that share one time axis. */
export class Series {
  readonly columns: readonly string[];
  readonly capacity: number;
  #values: Float32Array[];
  #length = 0;
  #next = 0;

  constructor(columns: readonly string[], capacity = 600) {
    this.columns = columns;
    this.capacity = capacity;
    this.#values = columns.map(() => new Float32Array(capacity));
  }

  get length(): number {
    return this.#length;
  }

  /** Appends a row; an absent figure is a gap, never a zero. */
  push(row: readonly (number | null | undefined)[]): void {
    for (const [index, column] of this.#values.entries()) column[this.#next] = row[index] ?? Number.NaN;
    this.#next = (this.#next + 1) % this.capacity;
    this.#length = Math.min(this.#length + 1, this.capacity);
  }

  /** A column, oldest first, with `null` for gaps as uPlot wants them. */
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
