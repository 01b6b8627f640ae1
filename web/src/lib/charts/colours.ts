// Colours of series, bound to their names: a name has the same colour in all charts of a view.

import { getContext, setContext } from 'svelte';
import { SLOTS } from './plot/draw';

export class Colours {
  readonly #slots = new Map<string, number>();

  /** Index in the palette of a name: at its first use, the next one. */
  of(name: string): number {
    const known = this.#slots.get(name);
    if (known !== undefined) return known;
    const slot = this.#slots.size % SLOTS;
    this.#slots.set(name, slot);
    return slot;
  }
}

const KEY = Symbol('colours');

/** Makes the charts below this component share colours. */
export const shareColours = (): Colours => setContext(KEY, new Colours());

/** The colours of the view, or of one chart. */
export const coloursOfView = (): Colours => getContext<Colours | undefined>(KEY) ?? new Colours();
