// Loss of a running test so far: the sum over its intervals, with corrections.

import type { Interval, IntervalCount, SumSoFar } from '../api/shapes';

type Ends = { sender?: IntervalCount | null; receiver?: IntervalCount | null };

class Direction {
  lost = 0;
  #arrived = 0;
  #sent = 0;
  /** Whether its receiver has reported a loss, including 0. */
  known = false;

  take({ sender, receiver }: Ends): void {
    this.#sent += sender?.packets ?? 0;
    if (typeof receiver?.lost_packets !== 'number') return;
    this.known = true;
    this.lost += receiver.lost_packets + (receiver.earlier_lost_packets ?? 0);
    this.#arrived += receiver.packets;
  }

  set(sum: SumSoFar): void {
    this.#sent = sum.sent_packets;
    this.known = typeof sum.lost_packets === 'number';
    this.lost = sum.lost_packets ?? 0;
    this.#arrived = this.known ? sum.received_packets : 0;
  }

  /** Expected packets, by the local end's complete counts: figures of the other end may be withheld, but not its losses. */
  get expected(): number {
    return Math.max(this.#sent, this.#arrived + this.lost);
  }
}

/**
 * The loss of all intervals of a test. Intervals of the omitted start count until the first other one. Absent if an interval was
 * missed because the page was opened later or was too slow: corrections may then refer to missed intervals.
 */
export class LossSoFar {
  #directions = { forward: new Direction(), reverse: new Direction() };
  #isCounted = false;
  #until = 0;
  #isWhole = true;

  take(interval: Interval): void {
    // The newest interval is part of the test's state and may arrive in the stream as well.
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

  /** Replaces the counts by those of the server, which has missed no interval. */
  set(sums: { forward?: SumSoFar | null; reverse?: SumSoFar | null }): void {
    this.#isWhole = true;
    for (const direction of ['forward', 'reverse'] as const) {
      const sum = sums[direction];
      if (sum) this.#directions[direction].set(sum);
    }
  }

  /** Lost ÷ sent packets; absent if no receiver has reported a loss, or if an interval was missed. */
  get ratio(): number | undefined {
    if (!this.#isWhole) return undefined;
    const known = Object.values(this.#directions).filter((one) => one.known);
    const sum = (of: (one: Direction) => number) => known.reduce((all, one) => all + of(one), 0);
    const expected = sum((one) => one.expected);
    return expected > 0 ? Math.max(0, sum((one) => one.lost)) / expected : undefined;
  }
}
