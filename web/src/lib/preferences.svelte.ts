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

const erase = (key: string): void => {
  try {
    localStorage.removeItem(`weir.${key}`);
  } catch {
    // As above.
  }
};

function listed(text: string | null): string[] | undefined {
  try {
    const list: unknown = JSON.parse(text ?? 'null');
    return Array.isArray(list) ? list.map(String) : undefined;
  } catch {
    return undefined;
  }
}

class Preferences {
  #theme = $state<Theme>(['light', 'dark'].includes(read('theme') ?? '') ? (read('theme') as Theme) : 'system');
  #keys = $state(read('keys') !== 'off');
  #host = $state(read('host') ?? '127.0.0.1');
  #from = $state(read('from') ?? '');
  #columns = $state.raw(listed(read('columns')));
  #split = $state(Number(read('split')) || 0);

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

  /** The host of a lab from which tests are started, `LAB/HOST`; empty: the server's host. */
  get from(): string {
    return this.#from;
  }

  set from(host: string) {
    this.#from = host;
    write('from', host);
  }

  /** The columns of the generator's table; absent: as many as fit. */
  get columns(): string[] | undefined {
    return this.#columns;
  }

  set columns(ids: string[] | undefined) {
    this.#columns = ids;
    if (ids === undefined) erase('columns');
    else write('columns', JSON.stringify(ids));
  }

  /** Height of the part below the generator's table, px; 0 is the usual one. */
  get split(): number {
    return this.#split;
  }

  set split(height: number) {
    this.#split = height;
    write('split', String(height));
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
