// Short notices in a corner, above the page, so that they don't move its content.

export type Tone = 'good' | 'warn' | 'bad' | 'info';

export interface Toast {
  id: number;
  tone: Tone;
  text: string;
  action?: { label: string; run: () => void };
}

const MOST = 4;
const STAY_MS = 7000;

class Toasts {
  list = $state.raw<Toast[]>([]);
  #last = 0;

  /** Shows a notice. An error stays until it is closed; others disappear after some seconds. */
  say(tone: Tone, text: string, action?: Toast['action']): number {
    this.#last += 1;
    const toast: Toast = { id: this.#last, tone, text, ...(action && { action }) };
    this.list = [...this.list.slice(-(MOST - 1)), toast];
    if (tone !== 'bad') setTimeout(() => this.close(toast.id), STAY_MS);
    return toast.id;
  }

  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
