// The timeline of an emulator as a strip: its changes, and where it is. Pure.

import type { TimelinePosition } from './api/shapes';
import { count, elapsed } from './format';
import { DIRECTIONS } from './staged';
import { isObject, type Json, type JsonObject, type Schema } from './schema/model';
import { lawsInWords } from './stages';

/** A change of the timeline. */
export interface Change {
  /** Its place, from 0. */
  index: number;
  /** Time since the start of the loop, s. */
  at: number;
  /** The flow whose laws it replaces. */
  flow: string;
  /** The new laws in words. */
  text: string;
}

export interface Timeline {
  changes: Change[];
  /** Length of a loop, s; absent if it is played once. */
  period: number | undefined;
  speed: number;
  /** The time at the right end of the strip, s. */
  end: number;
}

const PER_SECOND: Record<string, number> = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 };

/** A time as the server writes it: `40ms`, `2.5s`; a bare number is in seconds. */
export function secondsOf(time: Json | undefined): number | undefined {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)(s|ms|us|ns)?$/.exec(String(time ?? '')) ?? [];
  return number === undefined ? undefined : Number(number) / (PER_SECOND[unit] ?? 1);
}


/** The timeline of a configuration in force; absent without one. */
export function timelineOf(root: Schema, configuration: JsonObject): Timeline | undefined {
  const timeline = configuration['timeline'];
  if (!isObject(timeline)) return undefined;
  const list = Array.isArray(timeline['change']) ? timeline['change'].filter(isObject) : [];
  const changes = list.map((one, index) => ({ index, at: secondsOf(one['at']) ?? 0, flow: String(one['flow'] ?? 'other'), text: changeInWords(root, one) }));
  const period = secondsOf(timeline['loop']);
  const last = changes.at(-1)?.at ?? 0;
  // The laws after the last change need some room.
  const end = period ?? (last > 0 ? last * 1.15 : 1);
  return { changes, period, speed: typeof timeline['speed'] === 'number' ? timeline['speed'] : 1, end };
}

/** What a change sets: `preset dsl; A→B: loss: Random 5 %`. Laws that are the same in both directions are stated once. */
function changeInWords(root: Schema, change: JsonObject): string {
  const ways = Object.entries(DIRECTIONS).flatMap(([way, direction]) => (isObject(change[way]) ? [{ direction, laws: lawsInWords(root, change[way]) || 'no laws' }] : []));
  const isSame = ways.length === 2 && ways[0]?.laws === ways[1]?.laws;
  const laws = isSame ? [ways[0]?.laws] : ways.map((one) => `${one.direction}: ${one.laws}`);
  return [...(change['profile'] ? [`preset ${String(change['profile'])}`] : []), ...laws].join('; ');
}

/** Where it is, in words: `12 s of 60 s, loop 3`. */
export function positionInWords({ period }: Timeline, { position_seconds, loops }: TimelinePosition): string {
  return period === undefined ? `at ${elapsed(position_seconds)}` : `at ${elapsed(position_seconds)} of ${elapsed(period)}, loop ${count(loops)}`;
}

/** Maximum number of changes that are listed. */
const MOST_LISTED = 100;

/** The changes to list: all of them, or the ones around the latest. */
export function listed<T>(changes: readonly T[], made: number): T[] {
  if (changes.length <= MOST_LISTED) return [...changes];
  const start = Math.min(Math.max(0, made - MOST_LISTED / 2), changes.length - MOST_LISTED);
  return changes.slice(start, start + MOST_LISTED);
}
