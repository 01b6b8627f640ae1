// The current view, from the part of the address after `#`, so that every view has a link and the back key works.

import { untrack } from 'svelte';

function read(): { path: string; query: URLSearchParams } {
  const hash = location.hash.replace(/^#/, '');
  const [path = '', query = ''] = hash.split('?', 2);
  return { path: path || '/generator', query: new URLSearchParams(query) };
}

class Router {
  #at = $state.raw(read());

  constructor() {
    window.addEventListener('hashchange', () => (this.#at = read()));
  }

  /** The path's steps: `['runs', 'ID']`. */
  get steps(): string[] {
    return this.#at.path.split('/').filter((step) => step !== '').map(decodeURIComponent);
  }

  get view(): string {
    return this.steps[0] ?? 'generator';
  }

  get query(): URLSearchParams {
    return this.#at.query;
  }

  go(path: string): void {
    location.hash = path;
  }

  /** Changes parts of the query without a step for the back key; an empty value removes its part. */
  set(parts: Record<string, string>): void {
    const others = [...this.query].filter(([key]) => !(key in parts));
    const query = new URLSearchParams([...others, ...Object.entries(parts).filter(([, value]) => value !== '')]).toString();
    if (Object.entries(parts).every(([key, value]) => (this.query.get(key) ?? '') === value)) return;
    this.replace(`${this.#at.path}${query === '' ? '' : `?${query}`}`);
  }

  /** Changes the address without a step for the back key. */
  replace(path: string): void {
    history.replaceState(history.state, '', `#${path}`);
    this.#at = read();
  }
}

export const router = new Router();

/**
 * A choice of a view that is in the address, so that a reload and a link show it again. The address omits the usual one. A link
 * without it changes nothing. Call it while a component is set up.
 */
export function choice<T extends string>(key: string, values: readonly T[], usual: T): { value: T } {
  const view = untrack(() => router.view);
  const asked = () => values.find((one) => one === router.query.get(key));
  let value = $state(untrack(asked) ?? usual);
  $effect(() => {
    const other = asked();
    if (other !== undefined) untrack(() => (value = other));
  });
  $effect(() => {
    const part = value === usual ? '' : value;
    if (router.view === view) untrack(() => router.set({ [key]: part }));
  });
  return {
    get value() {
      return value;
    },
    set value(next) {
      value = next;
      // Before another effect reads the previous one from the address.
      router.set({ [key]: next === usual ? '' : next });
    },
  };
}
