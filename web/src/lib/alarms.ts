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

/** A date in ms as RFC 3339. */
export const dateOf = (ms: number): string => new Date(ms).toISOString();
