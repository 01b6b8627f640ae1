// States of tests, experiments, emulators, the demo and triggers in the API.

import type { StateEvent, TriggerReport } from './api/shapes';

export type State = StateEvent['state'];

/** Whether its process has ended. */
export const isOver = (state: State | null | undefined): boolean => state === 'ended' || state === 'interrupted' || state === 'failed';

/** The CSS class of its tag. */
export const toneOf = (state: State | null | undefined): string => (state === 'running' ? 'good' : state === 'interrupted' ? 'warn' : state === 'failed' ? 'bad' : '');

/** State of a trigger as shown, and the CSS class of its tag. */
export const TRIGGER_STATES: Record<TriggerReport['state'], { label: string; tone: string }> = {
  waiting: { label: 'waiting for trigger', tone: 'info' },
  applying: { label: 'applying', tone: 'good' },
  done: { label: 'stopped', tone: '' },
};

/** Whether a command changes the state of the trigger. */
export const takesCommand = (trigger: TriggerReport | null | undefined): boolean => trigger?.condition === 'command';

/** What the trigger does next and has done: `next: after 5s; laws applied 2 times`. */
export function triggerInWords({ applications, condition }: TriggerReport): string {
  return [...(condition ? [`next: ${condition}`] : []), `laws applied ${applications === 1 ? 'once' : `${applications} times`}`].join('; ');
}
