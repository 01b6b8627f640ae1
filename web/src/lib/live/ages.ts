// The age of figures at arrival, by object: the page shows that one object is late even if others are recent.

/** Figures are called old if they arrive this much later than the fastest, s. */
const OLD_SECONDS = 2;

/** Ages of the latest figures of each object. The server's times are RFC 3339, those of this clock ms since 1970. */
export class Ages {
  /** Minimum difference of this clock to the server's, including the path's delay, ms. */
  #fastest = Number.POSITIVE_INFINITY;
  /** The same difference of each object's latest figures, ms. */
  readonly #latest = new Map<string, number>();
  /** Objects that have ended: their last figures may arrive after that event, and will not be replaced. */
  readonly #over = new Set<string>();

  /** A connection starts; `at` is the server's time then. */
  begin(at: string, now: number): void {
    const difference = now - Date.parse(at);
    this.#fastest = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
    this.#latest.clear();
    this.#over.clear();
  }

  /** Figures of an object arrived; `at` is the server's time for them. */
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

  /** The age of the latest figures of the oldest object, whole s; 0 while all are recent. */
  get oldest(): number {
    const seconds = (Math.max(this.#fastest, ...this.#latest.values()) - this.#fastest) / 1000;
    return seconds >= OLD_SECONDS ? Math.round(seconds) : 0;
  }
}
