// The age of figures at arrival, by object: a late one is shown, even if others are recent.

/** Figures that come so much later than the fastest are said to be old, s. */
const OLD_SECONDS = 2;

/** Ages of the latest figures of each object. Times of the server are RFC 3339, this clock's are ms since 1970. */
export class Ages {
  /** Least difference of this clock to the server's, with the way, ms. */
  #fastest = Number.POSITIVE_INFINITY;
  /** The same difference of each object's latest figures, ms. */
  readonly #latest = new Map<string, number>();
  /** Objects that have ended: their last figures may come behind that news, and nothing will replace them. */
  readonly #over = new Set<string>();

  /** A connection begins; `at` is the server's time then. */
  begin(at: string, now: number): void {
    const difference = now - Date.parse(at);
    this.#fastest = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
    this.#latest.clear();
    this.#over.clear();
  }

  /** Figures of an object arrived, which the server had at `at`. */
  came(object: string, at: string, now: number): void {
    const difference = now - Date.parse(at);
    if (Number.isNaN(difference) || this.#over.has(object)) return;
    this.#fastest = Math.min(this.#fastest, difference);
    this.#latest.set(object, difference);
  }

  /** An object has ended. */
  forget(object: string): void {
    this.#latest.delete(object);
    this.#over.add(object);
  }

  /** The age of the object that is furthest behind, whole s; 0 while all are fresh. */
  get oldest(): number {
    const seconds = (Math.max(this.#fastest, ...this.#latest.values()) - this.#fastest) / 1000;
    return seconds >= OLD_SECONDS ? Math.round(seconds) : 0;
  }
}
