// The matrix of a mesh: for each cell a short text, a level for its colour, and a description. Pure.

import type { MeshState } from './api/shapes';
import { bitRate, elapsed, percent, seconds, text } from './format';

export const KINDS = ['loss', 'round-trip', 'one-way', 'rate'] as const;
export type Kind = (typeof KINDS)[number];

/** Figures that are older than this are marked, s. */
export const OLD_SECONDS = 10;
/** Number of levels above the lowest one. */
export const LEVELS = 5;
/** Loss ratios above which a cell has a level. */
const LOSS_LEVELS = [0, 0.001, 0.01, 0.05, 0.2];

export interface Cell {
  text: string;
  /** Below the text: an age, `no reply` or the error of a one-way delay. */
  below: string;
  /** 0 to LEVELS; the colour. */
  level: number;
  isOld: boolean;
  /** No probe of the latest second came back. */
  isDown: boolean;
  /** Probed by the agent of the column. */
  isMirrored: boolean;
}

/** A figure of one direction and its time. */
interface Value {
  value: number | undefined;
  at: number;
  error?: number | undefined;
  isDown: boolean;
  isMirrored: boolean;
}

export interface Matrix {
  /** Row by row; absent where nothing is measured. */
  cells: (Cell | undefined)[];
  unit: string;
  /** What the levels mean, from 0; empty where all values are alike. */
  levels: string[];
}

interface Unit {
  factor: number;
  symbol: string;
}

const known = (value: number | null | undefined): number | undefined => value ?? undefined;

/** An age in at most four characters. */
export function shortAge(age: number): string {
  const whole = Math.max(0, Math.floor(age));
  if (whole < 100) return `${whole} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} m`;
  if (whole < 36 * 3600) return `${Math.round(whole / 3600)} h`;
  return `${Math.round(whole / 86_400)} d`;
}

/** The length of a window: `10 s`, `5 min`, `1 h`. */
const lengthOf = (whole: number): string => (whole % 3600 === 0 ? `${whole / 3600} h` : whole % 60 === 0 ? `${whole / 60} min` : `${whole} s`);

/** A number in at most four characters, if it is below 10 000 of its unit. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 0.005) return value < 0 ? '0.00' : '<.01';
  if (size < 9.995) return value.toFixed(2);
  if (size < 99.95) return value.toFixed(1);
  return size < 9999.5 ? value.toFixed(0) : `${(value / 1000).toFixed(0)}k`;
}

/** Where the figures of a pair are. */
export class Pairs {
  readonly #state: MeshState;
  readonly #pairs = new Map<number, number>();
  readonly #bursts = new Map<number, number>();

  constructor(state: MeshState) {
    this.#state = state;
    const { pairs, bursts } = state;
    for (const [index, from] of pairs.from.entries()) this.#pairs.set(this.#key(from, pairs.to[index] ?? 0), index);
    for (const [index, from] of bursts.from.entries()) this.#bursts.set(this.#key(from, bursts.to[index] ?? 0), index);
  }

  #key(from: number, to: number): number {
    return from * this.#state.agents.length + to;
  }

  /** The index of the pair that measures between two agents, the newer one of two, and whether the second agent probes. */
  of(from: number, to: number): { index: number; isMirrored: boolean } | undefined {
    const { at_unix_seconds: at } = this.#state.pairs;
    const [here, back] = [this.#pairs.get(this.#key(from, to)), this.#pairs.get(this.#key(to, from))];
    if (here === undefined) return back === undefined ? undefined : { index: back, isMirrored: true };
    if (back === undefined || (at[here] ?? 0) >= (at[back] ?? 0)) return { index: here, isMirrored: false };
    return { index: back, isMirrored: true };
  }

  burst(from: number, to: number): number | undefined {
    return this.#bursts.get(this.#key(from, to));
  }
}

function valueOf({ pairs, bursts }: MeshState, places: Pairs, kind: Kind, from: number, to: number): Value | undefined {
  if (kind === 'rate') {
    const index = places.burst(from, to);
    return index === undefined ? undefined : { value: known(bursts.bits_per_second[index]), at: bursts.at_unix_seconds[index] ?? 0, isDown: false, isMirrored: false };
  }
  const found = places.of(from, to);
  if (found === undefined) return undefined;
  const { index, isMirrored } = found;
  const sent = pairs.last_sent_packets[index] ?? 0;
  // The latest second has ended a second after its start.
  const common = { at: (pairs.at_unix_seconds[index] ?? 0) + 1, isDown: sent > 0 && pairs.last_lost_packets[index] === sent, isMirrored };
  switch (kind) {
    case 'loss':
      return { ...common, value: known(pairs.loss_ratio[index]) };
    case 'round-trip':
      return { ...common, value: known(pairs.round_trip_p50_seconds[index]) ?? known(pairs.round_trip_mean_seconds[index]) };
    case 'one-way': {
      const error = known(pairs.one_way_error_seconds[index]);
      const value = known((isMirrored ? pairs.return_delay_seconds : pairs.forward_delay_seconds)[index]);
      // Without its error, a one-way delay is no figure.
      return { ...common, value: error === undefined ? undefined : value, error, isMirrored: false };
    }
  }
}

function unitOf(kind: Kind, values: number[]): Unit {
  if (kind === 'loss') return { factor: 0.01, symbol: '%' };
  const sorted = values.map(Math.abs).toSorted((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)] ?? 0;
  if (kind === 'rate') return middle >= 1e9 ? { factor: 1e9, symbol: 'Gbit/s' } : middle >= 1e6 ? { factor: 1e6, symbol: 'Mbit/s' } : { factor: 1e3, symbol: 'kbit/s' };
  return middle >= 1e-3 || middle === 0 ? { factor: 1e-3, symbol: 'ms' } : { factor: 1e-6, symbol: 'µs' };
}

/** The lower bounds of the levels from 1 on; of delays and rates equal ratios between the smallest and the largest value. */
function boundsOf(kind: Kind, values: number[]): number[] {
  if (kind === 'loss') return LOSS_LEVELS;
  const positive = values.filter((value) => value > 0);
  const [low, high] = positive.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, 0]);
  if (!(high > low * 1.25)) return [];
  return Array.from({ length: LEVELS }, (_, index) => low * (high / low) ** ((index + 1) / (LEVELS + 1)));
}

function legend(kind: Kind, bounds: number[], unit: Unit): string[] {
  if (kind === 'loss') return ['0', ...bounds.map((bound) => `> ${Number((bound * 100).toPrecision(3))}`)];
  const [first] = bounds;
  if (first === undefined) return [];
  return [`< ${short(first / unit.factor)}`, ...bounds.map((bound) => `≥ ${short(bound / unit.factor)}`)];
}

/** The cells of a mesh for a figure. */
export function matrixOf(state: MeshState, places: Pairs, kind: Kind): Matrix {
  const size = state.agents.length;
  const values = Array.from({ length: size * size }, (_, place) => {
    const [from, to] = [Math.floor(place / size), place % size];
    return from === to ? undefined : valueOf(state, places, kind, from, to);
  });
  const numbers = values.flatMap((one) => (one?.value === undefined ? [] : [one.value]));
  const unit = unitOf(kind, numbers);
  const bounds = boundsOf(kind, numbers);
  const cells = values.map((one) => {
    if (one === undefined) return undefined;
    const age = state.now_unix_seconds - one.at;
    // A burst is as old as its period; its age is always shown.
    const isOld = kind !== 'rate' && age > OLD_SECONDS;
    const isDown = one.isDown && !isOld;
    const value = one.value;
    const level = value === undefined ? 0 : bounds.filter((bound) => (kind === 'loss' ? value > bound : value >= bound)).length;
    const below = isOld || kind === 'rate' ? shortAge(age) : isDown ? 'no reply' : one.error === undefined || value === undefined ? '' : `±${short(one.error / unit.factor)}`;
    return { text: value === undefined ? (kind === 'rate' ? 'failed' : '–') : short(value / unit.factor), below, level, isOld, isDown, isMirrored: one.isMirrored };
  });
  return { cells, unit: unit.symbol, levels: legend(kind, bounds, unit) };
}

/** All latest figures from one agent to another, as terms with their values. */
export function factsOf(state: MeshState, places: Pairs, from: number, to: number): [term: string, value: string][] {
  const { pairs, bursts, agents, now_unix_seconds: now } = state;
  const facts: [string, string][] = [];
  const found = places.of(from, to);
  if (found !== undefined) {
    const { index, isMirrored } = found;
    const delay = (name: 'round_trip_p50_seconds' | 'round_trip_mean_seconds' | 'forward_delay_seconds' | 'return_delay_seconds' | 'one_way_error_seconds') => known(pairs[name][index]);
    const age = now - (pairs.at_unix_seconds[index] ?? 0) - 1;
    const window = pairs.window_seconds[index] ?? 0;
    const [sent, lost] = [pairs.last_sent_packets[index] ?? 0, pairs.last_lost_packets[index] ?? 0];
    const median = delay('round_trip_p50_seconds');
    facts.push(
      ['Loss', `${text(percent(known(pairs.loss_ratio[index])))} of ${pairs.sent_packets[index] ?? 0} probes`],
      [median === undefined ? 'Round trip, mean' : 'Round trip, median', text(seconds(median ?? delay('round_trip_mean_seconds')))],
    );
    const [there, back] = isMirrored ? [delay('return_delay_seconds'), delay('forward_delay_seconds')] : [delay('forward_delay_seconds'), delay('return_delay_seconds')];
    const error = delay('one_way_error_seconds');
    const oneWay = (value: number | undefined) => (value === undefined || error === undefined ? '–' : `${text(seconds(value))} ± ${text(seconds(error))}`);
    facts.push(['One-way delay', oneWay(there)], ['One-way delay back', oneWay(back)]);
    facts.push(['Figures of', window <= 1 ? 'one second' : `the last ${lengthOf(window)}`], ['Latest second', `${elapsed(age)} ago, ${lost === sent && sent > 0 ? 'no reply' : `${lost} of ${sent} lost`}`], ['Probed by', agents[isMirrored ? to : from]?.name ?? '']);
  }
  const burst = places.burst(from, to);
  if (burst !== undefined) {
    const rate = known(bursts.bits_per_second[burst]);
    facts.push(['Latest burst', `${rate === undefined ? 'failed' : text(bitRate(rate))}, ${elapsed(now - (bursts.at_unix_seconds[burst] ?? 0))} ago`]);
  }
  return facts;
}
