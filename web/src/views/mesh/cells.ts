// The table of a matrix. A mesh of 200 agents has 40 000 cells, so they are plain elements that change only where their text does.

import type { MeshAgent } from '../../lib/api/shapes';
import { path } from '../../lib/api/client';
import type { Cell } from '../../lib/mesh';
import { stateOf } from './states';

function element<K extends keyof HTMLElementTagNameMap>(tag: K, into: HTMLElement, set: Partial<HTMLElementTagNameMap[K]> = {}): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  Object.assign(made, set);
  into.append(made);
  return made;
}

interface Drawn {
  link: HTMLAnchorElement;
  text: Text;
  below: HTMLElement;
  /** What is shown, to be compared. */
  key: string;
}

/** The agents of the row and column that have the pointer or the focus. */
export interface Place {
  from: number;
  to: number;
  link: HTMLElement;
}

export class Table {
  readonly #root: HTMLTableElement;
  readonly #onplace: (place: Place | undefined) => void;
  #heads: [HTMLElement, HTMLElement][] = [];
  #cells: (Drawn | undefined)[] = [];
  #names = '';
  #size = 0;
  /** The cell that is reached by Tab. */
  #current = -1;

  constructor(root: HTMLTableElement, onplace: (place: Place | undefined) => void) {
    this.#root = root;
    this.#onplace = onplace;
    root.addEventListener('keydown', (event) => this.#key(event));
    for (const name of ['pointerover', 'focusin'] as const) root.addEventListener(name, (event) => this.#point(event));
    for (const name of ['pointerleave', 'focusout'] as const) root.addEventListener(name, () => onplace(undefined));
  }

  /** Shows cells, row by row; the links lead to the pairs of `mesh`, with `query` after them. */
  show(mesh: string, agents: readonly MeshAgent[], cells: readonly (Cell | undefined)[], query: string): void {
    const names = JSON.stringify(agents.map((agent) => agent.name));
    if (names !== this.#names) this.#build(agents);
    this.#names = names;
    for (const [index, agent] of agents.entries()) this.#head(index, agent);
    for (const [place, cell] of cells.entries()) {
      const [row, column] = [Math.floor(place / this.#size), place % this.#size];
      if (row !== column) this.#draw(place, cell, () => `#${path`/mesh/${mesh}/${agents[row]?.name ?? ''}/${agents[column]?.name ?? ''}`}${query}`);
    }
    if (this.#cells[this.#current] === undefined) this.#select(this.#cells.findIndex((one) => one !== undefined));
  }

  /** Whether the cells are as small as can be read, so that 40 agents fit on a screen. */
  get #isDense(): boolean {
    return this.#size > 14;
  }

  #build(agents: readonly MeshAgent[]): void {
    const size = agents.length;
    this.#size = size;
    this.#cells = new Array<Drawn | undefined>(size * size).fill(undefined);
    this.#current = -1;
    const fragment = document.createElement('table');
    const top = element('tr', element('thead', fragment));
    const corner = element('td', top, { className: 'corner' });
    element('span', corner, { textContent: 'from ↓ to →' });
    const columns = agents.map(() => element('th', top, { scope: 'col' }));
    const body = element('tbody', fragment);
    this.#heads = agents.map((_, row) => {
      const line = element('tr', body);
      const head = element('th', line, { scope: 'row' });
      for (let column = 0; column < size; column += 1) element('td', line, { className: row === column ? 'self' : 'none' });
      return [head, columns[row] as HTMLElement];
    });
    this.#root.replaceChildren(...fragment.childNodes);
    this.#root.classList.toggle('dense', this.#isDense);
  }

  /** The heads of a row and column say who is gone. */
  #head(index: number, agent: MeshAgent): void {
    const { word, tone, mark } = stateOf(agent);
    const key = `${agent.name} ${word}`;
    for (const head of this.#heads[index] ?? []) {
      if (head.dataset.key === key) continue;
      head.dataset.key = key;
      head.title = agent.state === 'connected' ? agent.name : `${agent.name}: ${word}${agent.reason ? `, ${agent.reason}` : ''}`;
      head.className = mark === '' ? '' : tone || 'unknown';
      const line = document.createElement('span');
      line.className = 'name';
      if (mark !== '') element('b', line, { textContent: `${mark} ` }).ariaHidden = 'true';
      line.append(agent.name);
      if (mark !== '') element('span', line, { className: 'visually-hidden', textContent: `, ${word}` });
      head.replaceChildren(line);
    }
  }

  #draw(place: number, cell: Cell | undefined, link: () => string): void {
    const drawn = this.#cells[place];
    const box = this.#root.tBodies[0]?.rows[Math.floor(place / this.#size)]?.cells[(place % this.#size) + 1];
    if (box === undefined) return;
    if (cell === undefined) {
      if (drawn === undefined) return;
      box.className = 'none';
      box.replaceChildren();
      this.#cells[place] = undefined;
      return;
    }
    const now = drawn ?? this.#make(box);
    this.#cells[place] = now;
    const href = link();
    if (now.link.getAttribute('href') !== href) now.link.href = href;
    const key = JSON.stringify(cell);
    if (now.key === key) return;
    now.key = key;
    // A small cell has one line: the figure, or what is more important.
    const isAgeOnly = this.#isDense && cell.isOld;
    now.text.data = isAgeOnly ? cell.below : this.#isDense && cell.isDown ? '✕' : cell.text;
    now.below.textContent = this.#isDense ? '' : cell.below;
    box.className = [`level${cell.level}`, cell.isOld && 'old', cell.isDown && 'down', cell.isMirrored && 'mirrored'].filter((one) => one !== false).join(' ');
  }

  #make(box: HTMLElement): Drawn {
    box.replaceChildren();
    const link = element('a', box, { tabIndex: -1 });
    const text = document.createTextNode('');
    link.append(text);
    return { link, text, below: element('small', link), key: '' };
  }

  #select(place: number): void {
    const before = this.#cells[this.#current];
    if (before) before.link.tabIndex = -1;
    this.#current = place;
    const now = this.#cells[place];
    if (now) now.link.tabIndex = 0;
  }

  #placeOf(target: EventTarget | null): number | undefined {
    const box = (target as HTMLElement | null)?.closest?.('td');
    const row = box?.parentElement as HTMLTableRowElement | null | undefined;
    if (!box || !row || row.parentElement?.tagName !== 'TBODY') return undefined;
    return row.sectionRowIndex * this.#size + box.cellIndex - 1;
  }

  #point(event: Event): void {
    const place = this.#placeOf(event.target);
    const drawn = place === undefined ? undefined : this.#cells[place];
    if (place === undefined || drawn === undefined) return void this.#onplace(undefined);
    if (event.type === 'focusin') this.#select(place);
    this.#onplace({ from: Math.floor(place / this.#size), to: place % this.#size, link: drawn.link });
  }

  #key(event: KeyboardEvent): void {
    const here = this.#placeOf(event.target);
    if (here === undefined) return;
    const size = this.#size;
    const row = here - (here % size);
    const steps: Record<string, [start: number, by: number, first: number, end: number]> = {
      ArrowRight: [here + 1, 1, row, row + size],
      ArrowLeft: [here - 1, -1, row, row + size],
      ArrowDown: [here + size, size, 0, size * size],
      ArrowUp: [here - size, -size, 0, size * size],
      Home: [row, 1, row, row + size],
      End: [row + size - 1, -1, row, row + size],
    };
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const [start, by, first, end] = step;
    // Cells without figures are left out.
    for (let place = start; place >= first && place < end; place += by) {
      const drawn = this.#cells[place];
      if (drawn === undefined) continue;
      drawn.link.focus();
      return;
    }
  }
}
