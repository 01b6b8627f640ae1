// Loss of a running test, of all its packets so far: the sum of its intervals with their corrections.

import type { Interval, IntervalCount } from '../api/shapes';

type Ends = { sender?: IntervalCount | null; receiver?: IntervalCount | null };

class Direction {
  lost = 0;
  #arrived = 0;
  #sent = 0;
  /** Whether its receiver has stated a loss, be it 0. */
  known = false;

  take({ sender, receiver }: Ends): void {
    this.#sent += sender?.packets ?? 0;
    if (typeof receiver?.lost_packets !== 'number') return;
    this.known = true;
    this.lost += receiver.lost_packets + (receiver.earlier_lost_packets ?? 0);
    this.#arrived += receiver.packets;
  }

  /** The local end has counted all; figures of the other end may be withheld, but not its losses. */
  get expected(): number {
    return Math.max(this.#sent, this.#arrived + this.lost);
  }
}

/**
 * What the intervals of a test lost together. Those of the omitted start count until the first other one. Absent where an interval was
 * missed, by a page that was opened later or too slow: corrections may be of intervals that it never had.
 */
export class LossSoFar {
  #directions = { forward: new Direction(), reverse: new Direction() };
  #isCounted = false;
  #until = 0;
  #isWhole = true;

  take(interval: Interval): void {
    // The newest interval comes with the test and may come by the stream as well.
    if (interval.end_seconds <= this.#until) return;
    if (interval.start_seconds > this.#until + 0.001) this.#isWhole = false;
    this.#until = interval.end_seconds;
    if (!interval.omitted && !this.#isCounted) {
      this.#isCounted = true;
      this.#directions = { forward: new Direction(), reverse: new Direction() };
    }
    for (const direction of ['forward', 'reverse'] as const) {
      const ends = interval.total?.[direction] as Ends | null | undefined;
      if (ends) this.#directions[direction].take(ends);
    }
  }

  /** Lost packets ÷ sent ones; absent where no receiver has stated a loss, or an interval was missed. */
  get ratio(): number | undefined {
    if (!this.#isWhole) return undefined;
    const known = Object.values(this.#directions).filter((one) => one.known);
    const sum = (of: (one: Direction) => number) => known.reduce((all, one) => all + of(one), 0);
    const expected = sum((one) => one.expected);
    return expected > 0 ? Math.max(0, sum((one) => one.lost)) / expected : undefined;
  }
}
