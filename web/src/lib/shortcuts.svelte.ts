// Single-key shortcuts, listed by `?`; a preference disables them (WCAG 2.1.4).

import { untrack } from 'svelte';
import { preferences } from './preferences.svelte';

export interface Shortcut {
  key: string;
  help: string;
  run: () => void;
}

class Shortcuts {
  #groups = $state.raw<Shortcut[][]>([]);
  list = $derived(this.#groups.flat());

  /** Adds keys until the returned function is called. */
  add(group: Shortcut[]): () => void {
    // Called from effects, which must not depend on the list.
    untrack(() => (this.#groups = [...this.#groups, group]));
    return () => untrack(() => (this.#groups = this.#groups.filter((one) => one !== group)));
  }

  /** Handles a key press, unless a field or a dialog handles it. */
  handle(event: KeyboardEvent): void {
    if (!preferences.keys || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement | null;
    if (target?.closest('input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]') || document.querySelector('dialog[open]')) return;
    // The keys of the view added last take precedence.
    const found = this.list.findLast((one) => one.key === event.key);
    if (found === undefined) return;
    event.preventDefault();
    found.run();
  }
}

export const shortcuts = new Shortcuts();
