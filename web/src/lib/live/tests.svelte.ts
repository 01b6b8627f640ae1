// Tests of the server and their figures. For a thousand flows ten times a second, figures are stored in rings outside of
// reactive state; visible components read them when `tick` changes.

import { call, get, path } from '../api/client';
import type { FlowState, Interval, IntervalCount, Record as RunRecord, Test, TestHistory, TestList, Warning } from '../api/shapes';
import { isLossKnown, lostAnEnd } from '../figures';
import { LossSoFar } from './loss';
import { Series } from './series';
import { type Counts, type Figures, lossOf, type Row, Sums } from './sums';
import { isOver } from '../states';
import { stream } from './stream.svelte';

/** The figures shown of a flow or a total: the receiver's, except for the sent rate and a stream's round trip. */
const FIGURES = ['rate', 'packets', 'loss', 'jitter', 'delay', 'sent', 'round_trip'] as const;
export type Column = (typeof FIGURES)[number];
/** The end of an interval, its start, its figures. */
const COLUMNS = ['at', 'from', ...FIGURES];

/** The sum of a figure over both directions; absent if a running direction lacks it. */
export function both(forward: Figures | undefined, reverse: Figures | undefined, key: keyof Figures): number | undefined {
  const values = [forward, reverse].filter((row) => row !== undefined).map((row) => row[key]);
  return values.length === 0 || values.includes(undefined) ? undefined : values.reduce<number>((sum, one) => sum + (one ?? 0), 0);
}

const LENGTH = 600;
const STATES = ['starting', 'running', 'ending', 'ended', 'interrupted', 'failed'];

/** The page shows "waiting" if the far end's figures are missing for this long, s; they usually arrive within 1 s. */
const WAITING_SECONDS = 2;

/** A page that misses intervals reads them at most this often, ms. */
const FILL_MS = 10_000;

/** A record with at most this many interval counts is read completely, for its curves. */
const MOST_COUNTS = 50_000;

/** The figures of one interval. Figures that the receiver has not reported are absent, not replaced by the sender's. */
export function figuresOf(counts: Counts): Figures {
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

type Total = Pick<IntervalCount, 'bits_per_second' | 'bytes' | 'packets' | 'lost_packets'>;

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
    ...sumsOf(receiver),
  };
}

/** The sums of a whole run. */
const sumsOf = (receiver: Total | null | undefined) => ({
  average: receiver?.bits_per_second ?? undefined,
  received_bytes: receiver?.bytes,
  received_packets: receiver?.packets,
  lost_packets: receiver?.lost_packets ?? undefined,
  isPartial: false,
});

/** The loss ratio of a whole run over both directions; absent if it is unknown for one of them. */
export function lossOfRecord({ flows, total }: Pick<RunRecord, 'flows' | 'total'>): number | undefined {
  const known = (['forward', 'reverse'] as const).filter((way) => typeof total[way]?.receiver?.loss_ratio === 'number');
  if (known.some((way) => !isLossKnown(flows, way))) return undefined;
  if (known.length === 1 && known[0] !== undefined) return total[known[0]]?.receiver?.loss_ratio ?? undefined;
  const sum = (of: (way: 'forward' | 'reverse') => number | null | undefined) => known.reduce((all, way) => all + (of(way) ?? 0), 0);
  const sent = sum((way) => total[way]?.sender?.packets);
  return sent > 0 ? sum((way) => total[way]?.receiver?.lost_packets) / sent : undefined;
}

type Totals = { forward?: Counts | null; reverse?: Counts | null } | undefined;

/** One running or finished test. */
export class LiveTest {
  #test = $state.raw() as Test;
  interval: Interval | undefined;
  /** Requested number of flows, until the program reports the actual one. */
  expected = $state(0);
  skipped = 0;
  /** Whether this page has stopped it. */
  isStoppedHere = false;
  /** Whether its figures are those of the record. */
  finished = $state(false);
  /** Length of the run, or time of the latest figures, s. */
  seconds: number | undefined;
  /** Loss ratio of all packets: so far, or of the record. */
  loss: number | undefined;
  #lossSoFar = new LossSoFar();
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly #sums = new Map<number | 'forward' | 'reverse', Sums>();
  /** The figures of the record by flow. */
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly #results = new Map<number, Row>();
  /** Figures of its flows by number: of the last second, or of the record. */
  readonly flows = { get: (id: number): Row | undefined => this.#results.get(id) ?? this.#sums.get(id)?.row(this.seconds ?? 0) };
  /** Whether no interval was missed so far, and the end of the latest. */
  #isWhole = true;
  #until = 0;
  #isCounted = false;
  /** Intervals that arrived while the history was being read; absent otherwise. */
  #arrived: Interval[] | undefined;
  /** Time after which a gap is filled from the server's history, ms of the page. */
  #fillAfter = 0;
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
    this.#arrived?.push(interval);
    this.interval = interval;
    this.seconds = interval.end_seconds;
    this.#add(interval);
    for (const flow of interval.flows) {
      const row = figuresOf(flow as Counts);
      // One end is local, so if both have figures, the far end has reported. A flow that has not started has no figures.
      const state = this.state(flow.id);
      if ((flow.sender && flow.receiver) || (state !== undefined && state !== 'started')) this.#told.set(flow.id, interval.end_seconds);
      let series = this.#series.get(flow.id);
      if (series === undefined) this.#series.set(flow.id, (series = new Series(COLUMNS, LENGTH)));
      series.push([interval.end_seconds, interval.start_seconds, row.rate, row.packets, row.loss, row.jitter, row.delay, row.sent, row.round_trip]);
    }
    const total = interval.total as Totals;
    const forward = total?.forward ? figuresOf(total.forward) : undefined;
    const reverse = total?.reverse ? figuresOf(total.reverse) : undefined;
    const sum = (key: keyof Figures) => both(forward, reverse, key);
    this.#lossSoFar.take(interval);
    this.#show(interval);
    const loss = lossOf([total?.forward?.receiver, total?.reverse?.receiver]);
    this.total.push([interval.end_seconds, interval.start_seconds, sum('rate'), sum('packets'), loss, undefined, undefined, sum('sent'), undefined]);
  }

  /** Shows the totals at the end of an interval. */
  #show(interval: Interval): void {
    const of = (way: 'forward' | 'reverse') => (interval.total?.[way] ? this.#sums.get(way)?.row(interval.end_seconds) : undefined);
    this.latestTotal = { forward: of('forward'), reverse: of('reverse') };
    this.loss = this.#lossSoFar.ratio;
  }

  /** Fills a gap in the intervals, which a busy page may leave. At most every 10 s, since a history is long for such a page. */
  async fill(now = performance.now()): Promise<void> {
    if (this.#isWhole || now < this.#fillAfter) return;
    this.#fillAfter = now + FILL_MS;
    await this.catchUp();
  }

  /** Reads the intervals that this page has missed, and the sums of the whole test so far. */
  async catchUp(): Promise<void> {
    if (this.over || this.#arrived !== undefined) return;
    const { start_seconds: start, end_seconds: end } = this.interval ?? { start_seconds: 0, end_seconds: 0 };
    this.#arrived = [];
    try {
      const history = await get<TestHistory>(path`/tests/${this.test.id}/history`, { after: Math.max(0, end - LENGTH * (end - start)) });
      if (!this.finished) this.#restore(history, this.#arrived);
    } finally {
      this.#arrived = undefined;
    }
  }

  /** Replaces curves and sums by those of the server, followed by intervals that arrived in the meantime. */
  #restore({ intervals, sums }: TestHistory, arrived: readonly Interval[]): void {
    const last = intervals.at(-1);
    if (last === undefined) return;
    this.#arrived = undefined;
    this.total.clear();
    this.#series.clear();
    this.#sums.clear();
    this.#lossSoFar = new LossSoFar();
    [this.#until, this.#isWhole, this.#isCounted] = [0, true, false];
    for (const interval of intervals) this.take(interval);
    for (const sum of sums.flows) this.#sums.get(sum.id)?.set(sum);
    for (const way of ['forward', 'reverse'] as const) {
      const sum = sums[way];
      if (sum) this.#sums.get(way)?.set(sum);
    }
    this.#lossSoFar.set(sums);
    this.#isWhole = true;
    this.#show(last);
    for (const interval of arrived) if (interval.end_seconds > last.end_seconds) this.take(interval);
  }

  /** Adds an interval to the sums. The intervals of the omitted start count until the first other one. */
  #add(interval: Interval): void {
    // The newest interval is part of the test's state and may arrive in the stream as well.
    if (interval.end_seconds <= this.#until) return;
    if (interval.start_seconds > this.#until + 0.001 && this.#isWhole) {
      this.#isWhole = false;
      for (const sums of this.#sums.values()) sums.missed();
    }
    this.#until = interval.end_seconds;
    if (!interval.omitted && !this.#isCounted) {
      this.#isCounted = true;
      this.#sums.clear();
    }
    const take = (of: number | 'forward' | 'reverse', counts: Counts) => {
      let sums = this.#sums.get(of);
      if (sums === undefined) this.#sums.set(of, (sums = new Sums(!this.#isWhole)));
      sums.take(interval.start_seconds, interval.end_seconds, counts);
    };
    for (const flow of interval.flows) take(flow.id, flow as Counts);
    const total = interval.total as Totals;
    if (total?.forward) take('forward', total.forward);
    if (total?.reverse) take('reverse', total.reverse);
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
    for (const flow of record.flows) this.#results.set(flow.id, resultOf(flow));
    const side = (way: 'forward' | 'reverse'): Row | undefined => {
      const total = record.total[way];
      return total ? { ...figuresOf({ sender: total.sender as IntervalCount | null, receiver: total.receiver as IntervalCount | null }), ...sumsOf(total.receiver) } : undefined;
    };
    this.latestTotal = { forward: side('forward'), reverse: side('reverse') };
    this.loss = lossOfRecord(record);
    this.seconds = record.seconds;
    this.finished = true;
  }

  /** Whether the far end's figures of a running flow are late: they are withheld while control traffic would exceed its budget. */
  isWaiting(flow: number): boolean {
    const now = this.interval?.end_seconds;
    if (now === undefined || this.test.state !== 'running' || !this.#sums.has(flow) || this.state(flow) !== 'started') return false;
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
        void found.fill().then(() => this.#moved(), () => {});
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
    // Without its history the figures of a test are those since the page was opened.
    await Promise.all(this.list.map((live) => live.catchUp().then(() => this.#moved(), () => {})));
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
      // The list has no figures of finished tests, by which the size of the record is estimated.
      if (live.interval === undefined) {
        const { latest } = await get<Test>(path`/tests/${live.test.id}`);
        if (latest) live.take(latest);
      }
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
    const live = this.find(id);
    if (live !== undefined) live.isStoppedHere = true;
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
