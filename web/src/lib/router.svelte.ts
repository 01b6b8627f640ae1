// The current view, from the part of the address after `#`, so that every view has a link and the back key works.

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

  /** Changes the address without a step for the back key. */
  replace(path: string): void {
    history.replaceState(history.state, '', `#${path}`);
    this.#at = read();
  }
}

export const router = new Router();
