// Alarms of an emulator, grouped by kind and object. Pure.

import type { Alarm } from './api/shapes';

export interface AlarmGroup {
  key: string;
  kind: Alarm['kind'];
  object: string;
  active: boolean;
  /** How often it was raised. */
  count: number;
  /** When it was raised first and last, s since the emulator's start. */
  first: number;
  last: number;
  /** When the last one was acknowledged. */
  acknowledged: number | undefined;
  /** The text of the last one. */
  text: string;
}

export const keyOf = (alarm: Pick<Alarm, 'kind' | 'object'>): string => `${alarm.kind}/${alarm.object}`;

/** The groups, active ones first, then by the last alarm. */
export function alarmGroups(alarms: readonly Alarm[]): AlarmGroup[] {
  const groups = new Map<string, AlarmGroup>();
  for (const alarm of alarms) {
    const key = keyOf(alarm);
    const group = groups.get(key) ?? { key, kind: alarm.kind, object: alarm.object, active: false, count: 0, first: alarm.at_seconds, last: -1, acknowledged: undefined, text: '' };
    groups.set(key, group);
    group.count += 1;
    group.active ||= alarm.active;
    group.first = Math.min(group.first, alarm.at_seconds);
    if (alarm.at_seconds >= group.last) [group.last, group.text, group.acknowledged] = [alarm.at_seconds, alarm.text, alarm.acknowledged_at_seconds ?? undefined];
  }
  return [...groups.values()].sort((a, b) => Number(b.active) - Number(a.active) || b.last - a.last);
}

/** What a verb on the alarms of a group changed: `count` is the number that the emulator answered. */
export function outcomeOf(verb: 'acknowledge' | 'clear', { kind, object }: Pick<AlarmGroup, 'kind' | 'object'>, count: number): string {
  const alarms = `${count === 1 ? '1 alarm' : `${count} alarms`} of kind ${kind} on ${object}`;
  if (verb === 'acknowledge') return count === 0 ? `All alarms of kind ${kind} on ${object} are acknowledged already.` : `Acknowledged ${alarms}.`;
  return count === 0 ? `No alarm of kind ${kind} on ${object} was removed: it is active again, or another client has removed it.` : `Removed ${alarms}.`;
}

/** A date in ms as RFC 3339. */
export const dateOf = (ms: number): string => new Date(ms).toISOString();
