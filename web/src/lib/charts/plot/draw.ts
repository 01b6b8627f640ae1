// A figure as a list of SVG elements, the same as the report's: `crates/report/src/plot/svg.rs`. Pure.

import { byColumn, type Spot } from './decimate';
import { at, type Figure, isEmpty, picked, type Series } from './figure';
import { estimated, fitted, type Measure } from './label';
import { Ruler, type Window } from './layout';

/** Number of colours of the palette. */
export const COLOURS = 16;
/** Size of a report's drawing and of the plot in it, in its units. */
const WIDTH = 560;
const PLOT = 190;
/** Minimum height of the plot. */
const LOW = 50;
/** Below this height, a drawing has its titles in one line, and none below the horizontal axis. */
const COMPACT = 170;
/** Height of a line of the legend. */
const LINE = 16;
/** Maximum number of series with their names beside their lines. */
const DIRECT = 5;
/** Distance of names beside lines. */
const APART = 13;
/** Width of a character of the title, of one of the other text. */
const BOLD = 1.25;

/** Index in the palette, or the name of a neutral colour. */
export type Paint = number | 'ink' | 'soft' | 'rule' | 'shade' | 'ground' | 'none';

/** An SVG element. Its key is the same in the next drawing of the same series. */
export interface Mark {
  key: string;
  tag: 'path' | 'text' | 'rect' | 'circle';
  /** Part of the data, which are cut at the plot's edge if only a part of them is shown. */
  data?: boolean;
  d?: string;
  x?: number;
  y?: number;
  width?: number;
  height?: number;
  r?: number;
  text?: string;
  anchor?: 'middle' | 'end';
  /** Of a title or an important name. */
  bold?: boolean;
  title?: boolean;
  fill?: Paint;
  opacity?: number;
  stroke?: Paint;
  thick?: number;
  dash?: string;
}

export interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Drawing {
  width: number;
  height: number;
  plot: Box;
  x: Ruler;
  y: Ruler;
  marks: Mark[];
}

export interface Options {
  width?: number;
  /** Height of the drawing; absent: that of a report's plot and its titles. */
  height?: number;
  measure?: Measure;
  /** Minimum width of the labels of the vertical axis. */
  left?: number;
  window?: Window;
}

/** A series with its index in the palette. */
interface Drawn {
  series: Series;
  /** Index in the figure. */
  index: number;
  colour: number;
  dash: string;
}

/** After the palette's colours, the next series are dashed, the following ones dotted. */
export const strokeOf = (slot: number): { colour: number; dash: string } => ({ colour: slot % COLOURS, dash: ['', '5 3', '1.5 2.5'][Math.min(Math.floor(slot / COLOURS), 2)] ?? '' });

/** Number of slots of the palette with its dashes. */
export const SLOTS = COLOURS * 3;

/** A coordinate with at most one decimal. */
const number = (value: number): string => {
  const tenths = Math.sign(value) * Math.round(Math.min(Math.abs(value), 1e6) * 10);
  return String(tenths === 0 || Number.isNaN(tenths) ? 0 : tenths / 10);
};

const through = (spots: readonly Spot[]): string => spots.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${number(x)} ${number(y)}`).join('');
const segment = (x1: number, y1: number, x2: number, y2: number): string => `M${number(x1)} ${number(y1)}L${number(x2)} ${number(y2)}`;

/** The part of a figure within a range of x, with the neighbours of lines. */
function within(figure: Figure, { low, high }: Window): Figure {
  const series = figure.series.map((one) => {
    const { x, x_end } = one;
    const isRange = x_end.length > 0;
    const outside = (index: number) => !(Math.max(at(x, index), isRange ? (x_end[index] ?? -Infinity) : -Infinity) >= low);
    let from = 0;
    while (from < x.length && outside(from)) from += 1;
    let to = from;
    while (to < x.length && !(at(x, to) > high)) to += 1;
    return isRange ? picked(one, from, to) : picked(one, Math.max(0, from - 1), to + 1);
  });
  return { ...figure, series };
}

/** Bars with caps at an interval. */
const whisker = (x: number, low: number, high: number): string => segment(x, low, x, high) + segment(x - 3, low, x + 3, low) + segment(x - 3, high, x + 3, high);

const middle = (series: Series, index: number): number => {
  const [x, end] = [at(series.x, index), at(series.x_end, index)];
  return Number.isNaN(end) ? x : (x + end) / 2;
};

/** The series, split into sequences of spots at its gaps. */
function runsOf(series: Series, x: Ruler, y: Ruler): Spot[][] {
  const isLevel = series.mark === 'step' || series.mark === 'area';
  const out: Spot[][] = [];
  let run: Spot[] = [];
  let until = Number.NaN;
  const cut = () => {
    if (run.length > 0) out.push(run);
    run = [];
  };
  for (let index = 0; index < series.x.length; index += 1) {
    const [from, value] = [at(series.x, index), at(series.y, index)];
    if (!Number.isFinite(value) || !Number.isFinite(from)) {
      cut();
      until = Number.NaN;
      continue;
    }
    const end = isLevel ? at(series.x_end, index) : Number.NaN;
    const hasEnd = Number.isFinite(end);
    // A range that does not start at the end of the previous one starts a new line.
    if (isLevel && from - until > 1e-6 * Math.abs((hasEnd ? end : from) - from)) cut();
    const level = y.place(value);
    run.push([x.place(from), level]);
    if (hasEnd) run.push([x.place(end), level]);
    until = end;
  }
  cut();
  return out;
}

class Drawer {
  readonly marks: Mark[] = [];

  constructor(
    readonly x: Ruler,
    readonly y: Ruler,
  ) {}

  dot(key: string, colour: number, cx: number, cy: number, isHollow: boolean): void {
    if (isHollow) this.marks.push({ key, tag: 'circle', data: true, x: cx, y: cy, r: 3.6, fill: 'ground', stroke: colour, thick: 1.5 });
    else this.marks.push({ key, tag: 'circle', data: true, x: cx, y: cy, r: 2.8, fill: colour });
  }

  spread({ series, index, colour }: Drawn): void {
    const { x, y } = this;
    const has = (place: number) => Number.isFinite(at(series.y, place)) && Number.isFinite(at(series.low, place)) && Number.isFinite(at(series.high, place));
    const places = [...series.x.keys()];
    if (series.mark === 'bars' || !places.some(has)) return;
    if (series.spread !== 'band') {
      const d = places.filter(has).map((place) => whisker(x.place(middle(series, place)), y.place(at(series.low, place)), y.place(at(series.high, place))));
      this.marks.push({ key: `spread ${index}`, tag: 'path', data: true, fill: 'none', stroke: colour, d: d.join('') });
      return;
    }
    const runs: number[][] = [[]];
    for (const place of places) if (has(place)) runs.at(-1)?.push(place); else runs.push([]);
    const edge = (run: number[], of: (number | null)[]): readonly Spot[] => {
      const spots: Spot[] = [];
      for (const place of run) {
        const [level, end] = [y.place(at(of, place)), at(series.x_end, place)];
        spots.push([x.place(at(series.x, place)), level]);
        if (!Number.isNaN(end)) spots.push([x.place(end), level]);
      }
      return byColumn(spots, 1);
    };
    const around = runs.filter((run) => run.length > 0).map((run) => `${through([...edge(run, series.high), ...edge(run, series.low).toReversed()])}Z`);
    this.marks.push({ key: `spread ${index}`, tag: 'path', data: true, fill: colour, opacity: 0.18, d: around.join('') });
  }

  /** Bars of the nth of several series. */
  bars({ series, index, colour }: Drawn, nth: number, of: number, hasNames: boolean): void {
    const { x, y } = this;
    const floor = y.floor;
    const room = Math.min(x.band * 0.76, of * 46);
    const places = [...series.x.keys()].filter((place) => Number.isFinite(at(series.y, place)) && Number.isFinite(at(series.x, place)));
    const ends: string[] = [];
    const d = places.map((place) => {
      const [start, end] = [at(series.x, place), at(series.x_end, place)];
      let [from, to] = [x.place(start) - 2, x.place(start) + 2];
      if (hasNames) {
        from = x.place(start) - room / 2 + (room * nth) / of;
        to = from + room / of - (of > 1 ? 1 : 0);
      } else if (!Number.isNaN(end)) {
        [from, to] = [x.place(start), x.place(end)];
        // A thin gap between bars, if they are wide enough.
        if (to - from > 3) to -= 0.6;
      }
      const [top, right] = [y.place(at(series.y, place)), Math.max(to, from + 0.3)];
      const [low, high] = [at(series.low, place), at(series.high, place)];
      if (!Number.isNaN(low) && !Number.isNaN(high)) ends.push(whisker((from + to) / 2, y.place(low), y.place(high)));
      return `${through([[from, floor], [from, top], [right, top], [right, floor]])}Z`;
    });
    this.marks.push({ key: `bars ${index}`, tag: 'path', data: true, fill: colour, d: d.join('') });
    // A whisker on a bar has the colour of the axis, to be visible.
    if (ends.length > 0) this.marks.push({ key: `spread ${index}`, tag: 'path', data: true, fill: 'none', stroke: 'soft', d: ends.join('') });
    for (const place of series.host_limited) {
      if (!Number.isFinite(at(series.y, place))) continue;
      const centre = hasNames ? x.place(at(series.x, place)) - room / 2 + (room * (nth + 0.5)) / of : x.place(middle(series, place));
      this.dot(`dot ${index} ${place}`, colour, centre, y.place(at(series.y, place)) - 6, true);
    }
  }

  line({ series, index, colour, dash }: Drawn): void {
    if (series.mark === 'points') return;
    const runs = runsOf(series, this.x, this.y);
    const [floor, lines] = [this.y.floor, runs.map((run) => byColumn(run, 1))];
    if (series.mark === 'area') {
      const d = runs.map((run, place) => `${through(lines[place] ?? [])}L${number(run.at(-1)?.[0] ?? 0)} ${number(floor)}L${number(run[0]?.[0] ?? 0)} ${number(floor)}Z`);
      this.marks.push({ key: `area ${index}`, tag: 'path', data: true, fill: colour, opacity: 0.15, d: d.join('') });
    }
    // A single point between gaps must be visible.
    const d = lines.map((run) => (run.length === 1 && run[0] !== undefined ? segment(run[0][0] - 1, run[0][1], run[0][0] + 1, run[0][1]) : through(run)));
    this.marks.push({ key: `line ${index}`, tag: 'path', data: true, fill: 'none', stroke: colour, thick: series.heavy ? 2.2 : 1.4, dash, d: d.join('') });
  }

  dots({ series, index, colour }: Drawn): void {
    const isEach = series.mark === 'points' || series.mark === 'curve';
    const limited = new Set(series.host_limited);
    let last = '';
    for (let place = 0; place < series.x.length; place += 1) {
      const value = at(series.y, place);
      if (!Number.isFinite(value) || !(isEach || limited.has(place))) continue;
      const [cx, cy] = [this.x.place(at(series.x, place)), this.y.place(value)];
      const spot = `${Math.round(cx)} ${Math.round(cy)}`;
      // Omit a dot at the same position as the previous one.
      if (spot !== last || limited.has(place)) this.dot(`dot ${index} ${place}`, colour, cx, cy, limited.has(place));
      last = spot;
    }
  }

  references(figure: Figure, { left, right }: Box): void {
    const { x, y } = this;
    for (const [index, { place, at: value, name }] of figure.references.entries()) {
      let ends: [Spot, Spot];
      if (place === 'diagonal') {
        const [a, b] = [x.ends, y.ends];
        const [low, high] = [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
        if (low > high) continue;
        ends = [[x.place(low), y.place(low)], [x.place(high), y.place(high)]];
      } else if (typeof value !== 'number' || !Number.isFinite(value)) continue;
      else if (place === 'horizontal') ends = [[left, y.place(value)], [right, y.place(value)]];
      else {
        const [low, high] = y.ends;
        ends = [[x.place(value), y.place(low)], [x.place(value), y.place(high)]];
      }
      // A line outside of the shown part has no name there.
      if (place === 'vertical' && (ends[0][0] < left - 0.5 || ends[0][0] > right + 0.5)) continue;
      this.marks.push({ key: `reference ${index}`, tag: 'path', data: true, fill: 'none', stroke: 'soft', dash: '2 3', d: through(ends) });
      const [end] = [ends[1]];
      if (place === 'vertical') this.marks.push({ key: `reference name ${index}`, tag: 'text', x: end[0] + 4, y: end[1] + 10, text: name });
      else this.marks.push({ key: `reference name ${index}`, tag: 'text', x: end[0] - 2, y: end[1] - 4, text: name, anchor: 'end' });
    }
  }

  /** Names beside the lines' ends, in their colours, moved apart if they would touch. */
  beside(drawn: readonly Drawn[], { right, top, bottom }: Box): void {
    const places = drawn.flatMap((one) => {
      const last = one.series.y.findLast((value) => value !== null && Number.isFinite(value));
      return typeof last === 'number' ? [{ at: this.y.place(last), one }] : [];
    });
    places.sort((a, b) => a.at - b.at);
    let taken = top - APART;
    for (const place of places) taken = place.at = Math.max(place.at, taken + APART);
    let free = bottom + APART;
    for (const place of places.toReversed()) free = place.at = Math.min(place.at, free - APART);
    for (const { at: level, one } of places) this.marks.push({ key: `name ${one.index}`, tag: 'text', x: right + 6, y: level + 4, fill: one.colour, bold: one.series.heavy, text: one.series.name });
  }
}

interface Key {
  x: number;
  one: Drawn;
}

/** The lines of the legend. */
function legendOf(drawn: readonly Drawn[], width: number, measure: Measure): Key[][] {
  const lines: Key[][] = [[]];
  let x = 0;
  for (const one of drawn) {
    const room = 22 + Math.min(measure(one.series.name), width - 30);
    if (x + room > width && x > 0) {
      lines.push([]);
      x = 0;
    }
    lines.at(-1)?.push({ x, one });
    x += room + 14;
  }
  return lines;
}

/** A key of the legend: a piece of the line, then the name. */
function key(drawer: Drawer, { x, one }: Key, baseline: number, width: number, measure: Measure): void {
  const { series, index, colour, dash } = one;
  const isDots = series.mark === 'points' || series.mark === 'curve';
  if (series.mark === 'bars') drawer.marks.push({ key: `key ${index}`, tag: 'rect', fill: colour, width: 11, height: 9, x: x + 2, y: baseline - 8.5 });
  else if (series.mark !== 'points') drawer.marks.push({ key: `key ${index}`, tag: 'path', fill: 'none', stroke: colour, thick: 2, dash, d: segment(x, baseline - 4, x + 16, baseline - 4) });
  if (isDots) drawer.marks.push({ key: `key dot ${index}`, tag: 'circle', fill: colour, r: 2.8, x: x + 8, y: baseline - 4 });
  drawer.marks.push({ key: `key name ${index}`, tag: 'text', x: x + 21, y: baseline, text: fitted(series.name, width - x - 22, measure) });
}

function frame(drawer: Drawer, figure: Figure, plot: Box, width: number, hasTitle: boolean, measure: Measure): void {
  const { marks, x, y } = drawer;
  const { left, right, top, bottom } = plot;
  for (const [index, [from = 0, to = 0]] of figure.shades.entries()) {
    const [start, end] = [x.place(from), x.place(to)];
    marks.push({ key: `shade ${index}`, tag: 'rect', data: true, fill: 'shade', x: start, y: top, width: Math.max(0, end - start), height: bottom - top });
  }
  // An axis of names has no tick marks.
  const ticks = figure.x.scale === 'category' ? [] : x.ticks;
  const grid = y.ticks.map((tick) => segment(left, tick.at, right, tick.at)).join('') + ticks.map((tick) => segment(tick.at, top, tick.at, bottom)).join('');
  marks.push({ key: 'grid', tag: 'path', stroke: 'rule', d: grid });
  const axis = ticks.filter((tick) => tick.label !== undefined).map((tick) => segment(tick.at, bottom, tick.at, bottom + 4));
  marks.push({ key: 'axis', tag: 'path', stroke: 'soft', d: segment(left, bottom, right, bottom) + axis.join('') });
  for (const [index, tick] of y.ticks.entries()) if (tick.label !== undefined) marks.push({ key: `y ${index}`, tag: 'text', x: left - 6, y: tick.at + 4, anchor: 'end', text: tick.label });
  let taken = -Infinity;
  for (const [index, tick] of x.ticks.entries()) {
    if (tick.label === undefined) continue;
    const half = measure(tick.label) / 2;
    // A label at the edge is moved inside the drawing; one that would touch its neighbour is omitted.
    const centre = Math.max(Math.min(tick.at, width - half), half);
    if (centre - half <= taken + 4) continue;
    marks.push({ key: `x ${index}`, tag: 'text', x: centre, y: bottom + 16, anchor: 'middle', text: tick.label });
    taken = centre + half;
  }
  if (hasTitle) marks.push({ key: 'x title', tag: 'text', x: (left + right) / 2, y: bottom + 33, anchor: 'middle', text: x.title });
}

/** Whether names are next to the lines' ends. */
const areDirect = (figure: Figure, drawn: readonly Drawn[], width: number, measure: Measure): boolean =>
  (figure.labels ?? 'auto') === 'auto' && drawn.length >= 2 && drawn.length <= DIRECT && drawn.every(({ series }) => series.mark !== 'bars' && series.mark !== 'points' && measure(series.name) < Math.min(120, width / 4));

export function draw(whole: Figure, { width = WIDTH, height, measure = estimated, left: least = 0, window }: Options = {}): Drawing {
  const figure = window === undefined ? whole : within(whole, window);
  // What is shown of a part has the legend of the whole.
  const drawn = figure.series.flatMap((series, index) => (isEmpty(whole.series[index] ?? series) ? [] : [{ series, index, ...strokeOf((series.colour ?? index) % SLOTS) }]));
  const isDirect = areDirect(figure, drawn, width, measure);
  const hasLegend = !isDirect && (drawn.length > 1 || (figure.labels === 'legend' && drawn.some(({ series }) => series.name !== '')));
  const legend = hasLegend ? legendOf(drawn, width, measure) : [];
  const isCompact = height !== undefined && height < COMPACT;
  const head = figure.title === '' || isCompact ? 29 : 46;
  const top = head + legend.length * LINE + (legend.length > 0 ? 4 : 0);
  const belowOf = (title: string) => (title === '' || isCompact ? 24 : 40);
  const below = belowOf(figure.x.label === '' && figure.x.scale !== 'linear' ? '' : 'x');
  const bottom = top + (height === undefined ? PLOT : Math.max(LOW, height - top - below));
  const y = Ruler.up(figure, bottom, top, Math.min(Math.max(Math.round((bottom - top) / 38), 2), 8));
  const labels = y.ticks.map((tick) => (tick.label === undefined ? 0 : measure(tick.label)));
  const left = Math.max(least, Math.min(Math.max(24, ...labels), 120) + 8);
  const names = Math.max(0, ...drawn.map(({ series }) => measure(series.name)));
  const right = Math.max(left + 40, isDirect ? width - names - 10 : width - 14);
  const plot: Box = { left, right, top, bottom };
  const x = Ruler.across(figure, left, right, Math.min(Math.max(Math.round(width / 80), 3), 14), window, measure);

  const drawer = new Drawer(x, y);
  const { marks } = drawer;
  if (figure.title !== '') marks.push({ key: 'title', tag: 'text', title: true, x: 0, y: 14, text: fitted(figure.title, (isCompact ? width - measure(y.title) - 12 : width) / BOLD, measure) });
  if (isCompact && figure.title !== '') marks.push({ key: 'y title', tag: 'text', x: width, y: 14, anchor: 'end', text: y.title });
  else marks.push({ key: 'y title', tag: 'text', x: 0, y: figure.title === '' ? 14 : 31, text: y.title });
  for (const [row, line] of legend.entries()) for (const one of line) key(drawer, one, head + 2 + row * LINE, width, measure);
  frame(drawer, figure, plot, width, x.title !== '' && !isCompact, measure);
  for (const one of drawn) drawer.spread(one);
  const bars = drawn.filter(({ series }) => series.mark === 'bars');
  for (const [nth, one] of bars.entries()) drawer.bars(one, nth, bars.length, figure.x.scale === 'category');
  for (const one of drawn) {
    if (one.series.mark === 'bars') continue;
    drawer.line(one);
    drawer.dots(one);
  }
  drawer.references(figure, plot);
  if (isDirect) drawer.beside(drawn, plot);
  if (drawn.length === 0) marks.push({ key: 'none', tag: 'text', x: (left + right) / 2, y: (top + bottom) / 2, anchor: 'middle', text: 'not measured' });
  return { width, height: bottom + belowOf(x.title), plot, x, y, marks };
}
