// Tests of the server and their figures. Figures are kept outside of reactive state: a thousand flows ten times a
// second are numbers in rings, and what is on the screen reads them when `tick` moves.

import { call, get, path } from '../api/client';
import type { Interval, IntervalCount, Test, TestList, Warning } from '../api/shapes';
import { Series } from './series';
import { isOver } from '../states';
import { stream } from './stream.svelte';

/** What is shown of a flow or a total: the receiver's, but for what was sent and a stream's round trip. */
export const COLUMNS = ['at', 'rate', 'packets', 'loss', 'jitter', 'delay', 'sent', 'round_trip'] as const;
export type Column = (typeof COLUMNS)[number];

export type Row = Record<Exclude<Column, 'at'>, number | undefined>;

/** A figure of both directions together; absent where one of those that run has none. */
export function both(forward: Row | undefined, reverse: Row | undefined, key: keyof Row): number | undefined {
  const values = [forward, reverse].filter((row) => row !== undefined).map((row) => row[key]);
  return values.length === 0 || values.includes(undefined) ? undefined : values.reduce<number>((sum, one) => sum + (one ?? 0), 0);
}

/** The share that was lost of what receivers expected, of all that told. */
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

/** A far end that has told nothing for so long is said to be silent, s: its figures come within one. */
const SILENT_SECONDS = 2;

type Counts = { sender?: IntervalCount | null; receiver?: IntervalCount | null };

/** The figures of one interval. What the receiver has not told is absent: what was sent does not stand for what arrived. */
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

/** What is known of one running or ended test. */
export class LiveTest {
  #test = $state.raw() as Test;
  interval: Interval | undefined;
  /** Names that its flows will have, from before the program has told them. */
  expected: string[] = $state.raw([]);
  skipped = 0;
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly flows = new Map<number, Row>();
  readonly total = new Series(COLUMNS, LENGTH);
  /** As the test has them, and as the stream tells them meanwhile. */
  readonly warnings: Warning[] = [];
  latestTotal: { forward: Row | undefined; reverse: Row | undefined } = { forward: undefined, reverse: undefined };
  /** When (the test's time, s) the far end last told of each flow. */
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly #told = new Map<number, number>();
  /** History of each flow, from its first figure on. */
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- figures are read when `tick` moves, not when they change
  readonly #series = new Map<number, Series>();

  constructor(test: Test) {
    this.#test = test;
    this.#warned();
    if (test.latest) this.take(test.latest);
  }

  #warned(): void {
    for (const warning of this.#test.warnings ?? []) this.warn(warning);
  }

  /** Takes a warning, once. */
  warn(warning: Warning): void {
    const isKnown = this.warnings.some((one) => one.code === warning.code && one.flow === warning.flow && one.text === warning.text);
    if (!isKnown && this.warnings.length < 100) this.warnings.push(warning);
  }

  /** The test as the server told it last. */
  get test(): Test {
    return this.#test;
  }

  set test(test: Test) {
    this.#test = test;
    this.#warned();
  }

  take(interval: Interval): void {
    this.interval = interval;
    for (const flow of interval.flows) {
      const row = rowOf(flow as Counts);
      this.flows.set(flow.id, row);
      // One end is here: where both have figures, the other has told.
      if (flow.sender && flow.receiver) this.#told.set(flow.id, interval.end_seconds);
      let series = this.#series.get(flow.id);
      if (series === undefined) this.#series.set(flow.id, (series = new Series(COLUMNS, LENGTH)));
      series.push([interval.end_seconds, row.rate, row.packets, row.loss, row.jitter, row.delay, row.sent, row.round_trip]);
    }
    const total = interval.total as { forward?: Counts | null; reverse?: Counts | null } | undefined;
    const forward = total?.forward ? rowOf(total.forward) : undefined;
    const reverse = total?.reverse ? rowOf(total.reverse) : undefined;
    this.latestTotal = { forward, reverse };
    const sum = (key: keyof Row) => both(forward, reverse, key);
    this.total.push([interval.end_seconds, sum('rate'), sum('packets'), lossOf([total?.forward?.receiver, total?.reverse?.receiver]), undefined, undefined, sum('sent'), undefined]);
  }

  /** Since when (the test's time, s) the far end has told nothing of a flow that runs; absent while it tells. */
  silentSince(flow: number): number | undefined {
    const now = this.interval?.end_seconds;
    const state = this.test.flow_states?.[this.named.find(([, id]) => id === flow)?.[0] ?? ''];
    if (now === undefined || this.test.state !== 'running' || !this.flows.has(flow) || (state !== undefined && state !== 'started')) return undefined;
    const told = this.#told.get(flow) ?? 0;
    return now - told >= SILENT_SECONDS ? told : undefined;
  }

  /** Since when the far end has told nothing of any flow that runs; absent while it tells of one. */
  get silent(): number | undefined {
    const since = this.test.flows.filter((flow) => this.flows.has(flow.id)).map((flow) => this.silentSince(flow.id));
    const known = since.filter((one) => one !== undefined);
    return known.length > 0 && Math.max(0, ...this.#told.values()) <= Math.max(...known) ? Math.max(...known) : undefined;
  }

  series(flow: number): Series | undefined {
    return this.#series.get(flow);
  }

  /** Names of its flows with their numbers; a number below 0 until the program has told it. */
  get named(): [string, number][] {
    return this.test.flows.length > 0 ? this.test.flows.map((flow) => [flow.name, flow.id]) : this.expected.map((name) => [name, -1]);
  }

  get over(): boolean {
    return isOver(this.test.state);
  }
}

class Tests {
  /** Newest first; replaced when a test comes, goes or changes its state, never for figures. */
  list = $state.raw<LiveTest[]>([]);
  /** Moves at most ten times a second while figures come in. */
  tick = $state(0);
  /** False until the first list has come. */
  known = $state(false);
  #due = false;

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

  /** The list as the server has it; figures of tests that are known stay. */
  async refresh(): Promise<void> {
    const { tests } = await get<TestList>('/tests');
    this.list = tests.map((test) => this.#adopt(test));
    this.known = true;
    this.#moved();
  }

  /** Puts a test at the head; `expected` are the names of flows that it was asked for. */
  add(test: Test, expected: string[] = []): LiveTest {
    const live = this.#adopt(test);
    if (expected.length > 0) live.expected = expected;
    this.list = [live, ...this.list.filter((one) => one.test.id !== test.id)];
    return live;
  }

  /** The test as an order's answer tells it. */
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
    // An answer may come after the stream has told more.
    if (STATES.indexOf(test.state) >= STATES.indexOf(live.test.state)) live.test = test;
    return live;
  }

  async #load(id: string): Promise<void> {
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
