// Runs an action and reports its error, so that no refusal is lost.

import { ApiError, wordsOf } from './api/client';
import { toasts } from './ui/toasts.svelte';

/** Runs `work`; on failure shows a notice, unless a form shows the error, and returns `false`. */
export async function attempt(work: () => Promise<unknown> | unknown): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return false;
    // The banner shows that the server is unreachable, and 401 asks for the token.
    if (error instanceof ApiError && (error.status === 0 || error.status === 401 || error.isShown)) return false;
    toasts.say('bad', wordsOf(error));
    return false;
  }
}
