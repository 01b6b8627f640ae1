// Preferences stored in this browser, such as the theme and whether single keys are shortcuts (WCAG 2.1.4).

export type Theme = 'system' | 'light' | 'dark';

const read = (key: string): string | null => {
  try {
    return localStorage.getItem(`weir.${key}`);
  } catch {
    return null;
  }
};

const write = (key: string, value: string): void => {
  try {
    localStorage.setItem(`weir.${key}`, value);
  } catch {
    // The browser has no storage: the choice lasts until the page is closed.
  }
};

class Preferences {
  #theme = $state<Theme>(['light', 'dark'].includes(read('theme') ?? '') ? (read('theme') as Theme) : 'system');
  #keys = $state(read('keys') !== 'off');
  #host = $state(read('host') ?? '127.0.0.1');

  constructor() {
    this.#show();
  }

  #show(): void {
    if (this.#theme === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = this.#theme;
  }

  get theme(): Theme {
    return this.#theme;
  }

  set theme(theme: Theme) {
    this.#theme = theme;
    write('theme', theme);
    this.#show();
  }

  /** Whether single letters are shortcuts. */
  get keys(): boolean {
    return this.#keys;
  }

  set keys(on: boolean) {
    this.#keys = on;
    write('keys', on ? 'on' : 'off');
  }

  /** The host tested last. */
  get host(): string {
    return this.#host;
  }

  set host(host: string) {
    this.#host = host;
    write('host', host);
  }
}

export const preferences = new Preferences();
