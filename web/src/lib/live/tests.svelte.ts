// Tests of the server and their figures. For a thousand flows ten times a second, figures are stored in rings outside of
// reactive state; visible components read them when `tick` changes.

import { call, get, path } from '../api/client';
import type { FlowState, Interval, IntervalCount, Record as RunRecord, Test, TestList, Warning } from '../api/shapes';
import { isLossKnown, lostAnEnd } from '../figures';
import { LossSoFar } from './loss';
import { Series } from './series';
import { isOver } from '../states';
import { stream } from './stream.svelte';

/** The figures shown of a flow or a total: the receiver's, except for the sent rate and a stream's round trip. */
export const COLUMNS = ['at', 'rate', 'packets', 'loss', 'jitter', 'delay', 'sent', 'round_trip'] as const;
export type Column = (typeof COLUMNS)[number];

export type Row = Record<Exclude<Column, 'at'>, number | undefined>;

/** The sum of a figure over both directions; absent if a running direction lacks it. */
export function both(forward: Row | undefined, reverse: Row | undefined, key: keyof Row): number | undefined {
  const values = [forward, reverse].filter((row) => row !== undefined).map((row) => row[key]);
  return values.length === 0 || values.includes(undefined) ? undefined : values.reduce<number>((sum, one) => sum + (one ?? 0), 0);
}

/** Lost ÷ expected packets of an interval, without losses of earlier intervals. */
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

const LENGTH = 600;
const STATES = ['starting', 'running', 'ending', 'ended', 'interrupted', 'failed'];

/** The page shows "waiting" if the far end's figures are missing for this long, s; they usually arrive within 1 s. */
const WAITING_SECONDS = 2;

/** A record with at most this many interval counts is read completely, for its curves. */
const MOST_COUNTS = 50_000;

type Counts = { sender?: IntervalCount | null; receiver?: IntervalCount | null };

/** The figures of one interval. Figures that the receiver has not reported are absent, not replaced by the sender's. */
export function rowOf(counts: Counts): Row {
  const { sender, receiver } = counts;
  return {
    rate: receiver?.bits_per_second ?? undefined,
    packets: receiver?.packets_per_second ?? undefined,
    loss: lossOf([receiver]),
    jitter: receiver?.jitter_seconds ?? undefined,
    delay: receiver?.mean_delay_seconds ?? undefined,
    sent: sender?.bits_per_second ?? undefined,
    round_trip: sender?.rtt_seconds ?? undefined,
  };
}

/** The figures of a whole run for one of its flows. */
export function resultOf(flow: RunRecord['flows'][number]): Row {
  const { sender, receiver } = flow;
  return {
    rate: receiver?.bits_per_second ?? undefined,
    packets: receiver?.packets_per_second ?? undefined,
    loss: lostAnEnd(flow) ? undefined : (receiver?.loss_ratio ?? undefined),
    jitter: receiver?.jitter_seconds ?? undefined,
    delay: receiver?.one_way_delay?.mean_seconds ?? undefined,
    sent: sender?.bits_per_second ?? undefined,
    round_trip: flow.tcp?.rtt_seconds ?? undefined,
  };
}

/** The loss ratio of a whole run over both directions; absent if it is unknown for one of them. */
export function lossOfRecord({ flows, total }: Pick<RunRecord, 'flows' | 'total'>): number | undefined {
  const known = (['forward', 'reverse'] as const).filter((way) => typeof total[way]?.receiver?.loss_ratio === 'number');
  if (known.some((way) => !isLossKnown(flows, way))) return undefined;
  if (known.length === 1 && known[0] !== undefined) return total[known[0]]?.receiver?.loss_ratio ?? undefined;
  const sum = (of: (way: 'forward' | 'reverse') => number | null | undefined) => known.reduce((all, way) => all + (of(way) ?? 0), 0);
  const sent = sum((way) => total[way]?.sender?.packets);
  return sent > 0 ? sum((way) => total[way]?.receiver?.lost_packets) / sent : undefined;
}

/** One running or finished test. */
export class LiveTest {
  #test = $state.raw() as Test;
  interval: Interval | undefined;
  /** Requested number of flows, until the program reports the actual one. */
  expected = $state(0);
  skipped = 0;
  /** Whether its figures are those of the record. */
  finished = $state(false);
  /** Length of the run, or time of the latest figures, s. */
  seconds: number | undefined;
  /** Loss ratio of all packets: so far, or of the record. */
  loss: number | undefined;
  readonly #lossSoFar = new LossSoFar();
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly flows = new Map<number, Row>();
  readonly total = new Series(COLUMNS, LENGTH);
  /** Warnings from the test's state and from the stream. */
  readonly warnings: Warning[] = [];
  latestTotal: { forward: Row | undefined; reverse: Row | undefined } = { forward: undefined, reverse: undefined };
  /** Time of the test, s, at which the far end last reported each flow. */
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly #told = new Map<number, number>();
  /** History of each flow, from its first figure on. */
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly #series = new Map<number, Series>();

  constructor(test: Test) {
    this.test = test;
    if (test.latest) this.take(test.latest);
  }

  #warned(): void {
    for (const warning of this.#test.warnings ?? []) this.warn(warning);
  }

  /** Adds a warning unless it is known. */
  warn(warning: Warning): void {
    const isKnown = this.warnings.some((one) => one.code === warning.code && one.flow === warning.flow && one.text === warning.text);
    if (!isKnown && this.warnings.length < 100) this.warnings.push(warning);
  }

  /** The latest state of the test. */
  get test(): Test {
    return this.#test;
  }

  set test(test: Test) {
    this.#test = test;
    this.#warned();
  }

  /** One of its flows as reported. */
  flow(id: number): Test['flows'][number] | undefined {
    // Numbers count from 1, in the order of the flows.
    const found = this.test.flows[id - 1];
    return found?.id === id ? found : this.test.flows.find((one) => one.id === id);
  }

  /** State of one of its flows; absent until reported. */
  state(id: number): FlowState | undefined {
    return this.test.flow_states[this.flow(id)?.name ?? ''];
  }

  take(interval: Interval): void {
    // The record already has all intervals.
    if (this.finished) return;
    this.interval = interval;
    this.seconds = interval.end_seconds;
    for (const flow of interval.flows) {
      const row = rowOf(flow as Counts);
      this.flows.set(flow.id, row);
      // One end is local, so if both have figures, the far end has reported. A flow that has not started has no figures.
      const state = this.state(flow.id);
      if ((flow.sender && flow.receiver) || (state !== undefined && state !== 'started')) this.#told.set(flow.id, interval.end_seconds);
      let series = this.#series.get(flow.id);
      if (series === undefined) this.#series.set(flow.id, (series = new Series(COLUMNS, LENGTH)));
      series.push([interval.end_seconds, row.rate, row.packets, row.loss, row.jitter, row.delay, row.sent, row.round_trip]);
    }
    const total = interval.total as { forward?: Counts | null; reverse?: Counts | null } | undefined;
    const forward = total?.forward ? rowOf(total.forward) : undefined;
    const reverse = total?.reverse ? rowOf(total.reverse) : undefined;
    this.latestTotal = { forward, reverse };
    const sum = (key: keyof Row) => both(forward, reverse, key);
    this.#lossSoFar.take(interval);
    this.loss = this.#lossSoFar.ratio;
    const loss = lossOf([total?.forward?.receiver, total?.reverse?.receiver]);
    this.total.push([interval.end_seconds, sum('rate'), sum('packets'), loss, undefined, undefined, sum('sent'), undefined]);
  }

  /** Approximate number of interval counts in its record. */
  get counts(): number {
    const { start_seconds: start, end_seconds: end } = this.interval ?? { start_seconds: 0, end_seconds: 0 };
    return end > start ? this.test.flows.length * Math.ceil(end / (end - start)) : 0;
  }

  /** Shows the figures of the whole run, and its curves if the record has intervals. */
  finish(record: RunRecord): void {
    const intervals = record.intervals ?? [];
    if (intervals.length > 0) {
      this.total.clear();
      this.#series.clear();
      for (const interval of intervals.slice(-LENGTH)) this.take(interval);
    }
    for (const flow of record.flows) this.flows.set(flow.id, resultOf(flow));
    const side = (way: 'forward' | 'reverse'): Row | undefined => {
      const total = record.total[way];
      return total ? rowOf({ sender: total.sender as IntervalCount | null, receiver: total.receiver as IntervalCount | null }) : undefined;
    };
    this.latestTotal = { forward: side('forward'), reverse: side('reverse') };
    this.loss = lossOfRecord(record);
    this.seconds = record.seconds;
    this.finished = true;
  }

  /** Whether the far end's figures of a running flow are late: they are withheld while control traffic would exceed its budget. */
  isWaiting(flow: number): boolean {
    const now = this.interval?.end_seconds;
    if (now === undefined || this.test.state !== 'running' || !this.flows.has(flow) || this.state(flow) !== 'started') return false;
    return now - (this.#told.get(flow) ?? 0) >= WAITING_SECONDS;
  }

  /** Time of the test, s, since which the peer has been unreachable; absent while it is reachable. */
  get unreachableSince(): number | undefined {
    return this.over ? undefined : (this.test.peer_unreachable_since_seconds ?? undefined);
  }

  series(flow: number): Series | undefined {
    return this.#series.get(flow);
  }

  /** Number of its flows. */
  get flowCount(): number {
    return this.test.flows.length || this.expected;
  }

  get over(): boolean {
    return isOver(this.test.state);
  }
}

class Tests {
  /** Newest first; replaced when a test is added, removed or changes its state, but not for figures. */
  list = $state.raw<LiveTest[]>([]);
  /** Changes at most ten times a second while figures arrive. */
  tick = $state(0);
  /** False until the first list has arrived. */
  known = $state(false);
  #due = false;
  /** Tests that are being read, and whether they have changed in the meantime. */
  readonly #loading = new Map<string, boolean>();
  /** Tests whose records are being read. */
  readonly #reading = new Set<string>();

  constructor() {
    stream.on({
      hello: () => void this.refresh(),
      state: (event) => {
        if (event.kind === 'tests') void this.#load(event.id);
      },
      sample: (event) => {
        if (event.kind !== 'tests' || !event.interval) return;
        const found = this.find(event.id);
        if (found === undefined) return;
        found.skipped += event.skipped;
        found.take(event.interval);
        this.#moved();
      },
      warning: (event) => {
        const found = event.kind === 'tests' ? this.find(event.id) : undefined;
        if (found === undefined) return;
        found.warn(event.warning);
        this.#moved();
      },
    });
  }

  find(id: string): LiveTest | undefined {
    return this.list.find((one) => one.test.id === id);
  }

  /** Reads the server's list; figures of known tests are preserved. */
  async refresh(): Promise<void> {
    const { tests } = await get<TestList>('/tests');
    this.list = tests.map((test) => this.#adopt(test));
    this.known = true;
    this.#moved();
  }

  /** Adds a test at the head; `expected` is the requested number of flows. */
  add(test: Test, expected = 0): LiveTest {
    const live = this.#adopt(test);
    live.expected = expected;
    this.list = [live, ...this.list.filter((one) => one.test.id !== test.id)];
    return live;
  }

  /** Reads the record of a test that has ended, once. */
  async finish(live: LiveTest): Promise<void> {
    if (live.test.state !== 'ended' || live.finished || this.#reading.has(live.test.id)) return;
    this.#reading.add(live.test.id);
    try {
      const parts = live.counts <= MOST_COUNTS ? 'all' : 'summary';
      live.finish(await get<RunRecord>(path`/tests/${live.test.id}/record`, { parts }));
      this.#moved();
    } finally {
      this.#reading.delete(live.test.id);
    }
  }

  /** Handles the test in the response to a command. */
  told(test: Test): void {
    this.#adopt(test);
    this.list = [...this.list];
  }

  async stop(id: string): Promise<void> {
    const { data } = await call<Test>('POST', path`/tests/${id}/stop`);
    this.#adopt(data);
    this.list = [...this.list];
  }

  #adopt(test: Test): LiveTest {
    const live = this.find(test.id);
    if (live === undefined) return new LiveTest(test);
    // A response may arrive after newer events of the stream.
    if (STATES.indexOf(test.state) >= STATES.indexOf(live.test.state)) live.test = test;
    return live;
  }

  /** Reads a test again; if it changes in the meantime, reads it once more. */
  async #load(id: string): Promise<void> {
    if (this.#loading.has(id)) {
      this.#loading.set(id, true);
      return;
    }
    do {
      this.#loading.set(id, false);
      await this.#read(id);
    } while (this.#loading.get(id));
    this.#loading.delete(id);
  }

  async #read(id: string): Promise<void> {
    try {
      const test = await get<Test>(path`/tests/${id}`);
      const known = this.find(id) !== undefined;
      const live = this.#adopt(test);
      this.list = known ? [...this.list] : [live, ...this.list];
      this.#moved();
    } catch {
      this.list = this.list.filter((one) => one.test.id !== id);
    }
  }

  #moved(): void {
    if (this.#due) return;
    this.#due = true;
    setTimeout(() => {
      this.#due = false;
      this.tick += 1;
    }, 100);
  }
}

export const tests = new Tests();
