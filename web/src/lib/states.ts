// States of tests, experiments, emulators and the demo in the API.

import type { StateEvent } from './api/shapes';

export type State = StateEvent['state'];

/** Whether its process has ended. */
export const isOver = (state: State | null | undefined): boolean => state === 'ended' || state === 'interrupted' || state === 'failed';

/** The CSS class of its tag. */
export const toneOf = (state: State | null | undefined): string => (state === 'running' ? 'good' : state === 'interrupted' ? 'warn' : state === 'failed' ? 'bad' : '');
