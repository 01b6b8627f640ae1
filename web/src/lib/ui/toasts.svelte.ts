// Short notices over the page, so that they don't move its content.

export type Tone = 'good' | 'warn' | 'bad' | 'info';

export interface Toast {
  id: number;
  tone: Tone;
  text: string;
  action?: { label: string; run: () => void };
}

const MOST = 4;
const STAY_MS = 7000;
/** An error stays longer, since it may have to be copied. */
const STAY_ERROR_MS = 20_000;

class Toasts {
  list = $state.raw<Toast[]>([]);
  #last = 0;
  /** When each notice disappears, ms of the page's clock. */
  readonly #ends = new Map<number, number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Since when the notices are read, that is, under the pointer or focused; they do not disappear then. */
  #heldSince: number | undefined;

  /** Shows a notice. It disappears after some seconds, an error later. */
  say(tone: Tone, text: string, action?: Toast['action']): number {
    this.#last += 1;
    const toast: Toast = { id: this.#last, tone, text, ...(action && { action }) };
    for (const old of this.list.slice(0, -(MOST - 1))) this.close(old.id);
    this.list = [...this.list, toast];
    this.#ends.set(toast.id, (this.#heldSince ?? performance.now()) + (tone === 'bad' ? STAY_ERROR_MS : STAY_MS));
    this.#wait();
    return toast.id;
  }

  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
    this.#ends.delete(id);
    // The one that was under the pointer or focused may have gone.
    this.hold(false);
  }

  /** Stops or continues the time of all notices. */
  hold(isHeld: boolean): void {
    if (isHeld === (this.#heldSince !== undefined)) return;
    if (this.#heldSince === undefined) this.#heldSince = performance.now();
    else {
      const held = performance.now() - this.#heldSince;
      this.#heldSince = undefined;
      for (const [id, end] of this.#ends) this.#ends.set(id, end + held);
    }
    this.#wait();
  }

  #wait(): void {
    clearTimeout(this.#timer);
    if (this.#heldSince !== undefined || this.#ends.size === 0) return;
    this.#timer = setTimeout(() => {
      for (const [id, end] of [...this.#ends]) if (end <= performance.now()) this.close(id);
      this.#wait();
    }, Math.max(0, Math.min(...this.#ends.values()) - performance.now()));
  }
}

export const toasts = new Toasts();
