// Figures of a flow, or of a direction, over the last second and since its start.

import type { IntervalCount, SumSoFar } from '../api/shapes';

/** The figures of a stretch of time: the receiver's, except for the sent rate and a stream's round trip. */
export interface Figures {
  rate: number | undefined;
  packets: number | undefined;
  loss: number | undefined;
  jitter: number | undefined;
  delay: number | undefined;
  sent: number | undefined;
  round_trip: number | undefined;
}

/** The figures of the last second, or of a whole run, and sums. */
export interface Row extends Figures {
  /** Mean received rate since the start. */
  average: number | undefined;
  /** Received since the start. */
  received_bytes: number | undefined;
  received_packets: number | undefined;
  lost_packets: number | undefined;
  /** Whether intervals are missing in the sums, so that they are lower bounds. */
  isPartial: boolean;
}

export type Counts = { sender?: IntervalCount | null; receiver?: IntervalCount | null };

/** Lost ÷ expected packets of intervals, without losses of earlier intervals. */
export function lossOf(receivers: readonly (IntervalCount | null | undefined)[]): number | undefined {
  let lost = 0;
  let expected = 0;
  for (const receiver of receivers) {
    if (receiver?.lost_packets === undefined || receiver.lost_packets === null) continue;
    lost += receiver.lost_packets;
    expected += receiver.packets + receiver.lost_packets;
  }
  return expected > 0 ? lost / expected : undefined;
}

/** Rates are means over this time, s: intervals may be as short as 100 ms. */
const WINDOW_SECONDS = 1;

interface Entry extends Counts {
  end: number;
  seconds: number;
}

const isRecent = (entry: Entry, now: number) => entry.end > now - WINDOW_SECONDS + 1e-6;

/** The sum over the entries that have the figure; absent if none has. */
function sum(entries: readonly Entry[], of: (entry: Entry) => number | null | undefined): number | undefined {
  let all: number | undefined;
  for (const entry of entries) {
    const one = of(entry);
    if (typeof one === 'number') all = (all ?? 0) + one;
  }
  return all;
}

/** Bits of one end in an interval: by its rate, which covers the sending time only, else by its bytes. */
const bitsOf = (count: IntervalCount | null | undefined, seconds: number) => (count ? (typeof count.bits_per_second === 'number' ? count.bits_per_second * seconds : count.bytes * 8) : undefined);

export class Sums {
  #recent: Entry[] = [];
  #seconds = 0;
  #bits = 0;
  #bytes = 0;
  #packets = 0;
  #lost: number | undefined;
  #isPartial: boolean;

  /** `isPartial`: earlier intervals were missed. */
  constructor(isPartial = false) {
    this.#isPartial = isPartial;
  }

  /** Replaces the sums by those of the server, which has missed no interval. */
  set(sum: SumSoFar): void {
    this.#seconds = sum.seconds;
    this.#bits = sum.received_bits;
    this.#bytes = sum.received_bytes;
    this.#packets = sum.received_packets;
    this.#lost = sum.lost_packets ?? undefined;
    this.#isPartial = sum.partial;
  }

  /** An interval was missed. */
  missed(): void {
    this.#isPartial = true;
  }

  /** Adds an interval, which is newer than the ones before. */
  take(start: number, end: number, counts: Counts): void {
    const { sender, receiver } = counts;
    if (!sender && !receiver) return;
    const seconds = end - start;
    while (this.#recent[0] !== undefined && !isRecent(this.#recent[0], end)) this.#recent.shift();
    this.#recent.push({ end, seconds, sender: sender ?? null, receiver: receiver ?? null });
    if (!receiver) {
      // The far end withheld its figures.
      this.#isPartial = true;
      return;
    }
    this.#seconds += seconds;
    this.#bits += bitsOf(receiver, seconds) ?? 0;
    this.#bytes += receiver.bytes;
    this.#packets += receiver.packets;
    if (typeof receiver.lost_packets === 'number') this.#lost = (this.#lost ?? 0) + receiver.lost_packets + (receiver.earlier_lost_packets ?? 0);
  }

  /** The figures at this time of the test, s. */
  row(now: number): Row {
    const recent = this.#recent.filter((one) => isRecent(one, now));
    const last = (of: (entry: Entry) => number | null | undefined) => recent.map(of).findLast((one) => typeof one === 'number') ?? undefined;
    const mean = (side: 'sender' | 'receiver', of: (count: IntervalCount, seconds: number) => number | null | undefined) => {
      const seconds = sum(recent, (one) => (one[side] ? one.seconds : undefined)) ?? 0;
      const all = sum(recent, (one) => (one[side] ? of(one[side], one.seconds) : undefined));
      return all === undefined || seconds === 0 ? undefined : all / seconds;
    };
    const delays = recent.filter((one) => typeof one.receiver?.mean_delay_seconds === 'number' && one.receiver.packets > 0);
    const delayed = sum(delays, (one) => one.receiver?.packets);
    const has = this.#seconds > 0;
    return {
      rate: mean('receiver', bitsOf),
      packets: mean('receiver', (count) => count.packets),
      loss: lossOf(recent.map((one) => one.receiver)),
      jitter: last((one) => one.receiver?.jitter_seconds),
      delay: delayed === undefined ? undefined : (sum(delays, (one) => (one.receiver?.mean_delay_seconds ?? 0) * (one.receiver?.packets ?? 0)) ?? 0) / delayed,
      sent: mean('sender', bitsOf),
      round_trip: last((one) => one.sender?.rtt_seconds),
      average: has ? this.#bits / this.#seconds : undefined,
      received_bytes: has ? this.#bytes : undefined,
      received_packets: has ? this.#packets : undefined,
      lost_packets: this.#lost === undefined ? undefined : Math.max(0, this.#lost),
      isPartial: this.#isPartial,
    };
  }
}
