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
  /** The text of the last one. */
  text: string;
}

/** What the user has done with a group: the time of the alarm that was the last one then. */
export interface Handled {
  acknowledged?: number;
  cleared?: number;
}

export const keyOf = (alarm: Pick<Alarm, 'kind' | 'object'>): string => `${alarm.kind}/${alarm.object}`;

/** The groups, active ones first, then by the last alarm. Cleared alarms are left out until they are raised again. */
export function alarmGroups(alarms: readonly Alarm[], handled: Readonly<Record<string, Handled>> = {}): AlarmGroup[] {
  const groups = new Map<string, AlarmGroup>();
  for (const alarm of alarms) {
    const key = keyOf(alarm);
    const cleared = handled[key]?.cleared;
    if (!alarm.active && cleared !== undefined && alarm.at_seconds <= cleared) continue;
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, { key, kind: alarm.kind, object: alarm.object, active: alarm.active, count: 1, first: alarm.at_seconds, last: alarm.at_seconds, text: alarm.text });
      continue;
    }
    group.count += 1;
    group.active ||= alarm.active;
    group.first = Math.min(group.first, alarm.at_seconds);
    if (alarm.at_seconds >= group.last) [group.last, group.text] = [alarm.at_seconds, alarm.text];
  }
  return [...groups.values()].sort((a, b) => Number(b.active) - Number(a.active) || b.last - a.last);
}

/** Whether a group's last alarm has been acknowledged. */
export const isAcknowledged = (group: AlarmGroup, handled: Readonly<Record<string, Handled>>): boolean => (handled[group.key]?.acknowledged ?? -1) >= group.last;

/** A date in ms as RFC 3339. */
export const dateOf = (ms: number): string => new Date(ms).toISOString();
