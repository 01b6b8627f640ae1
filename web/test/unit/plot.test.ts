import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { byColumn, type Spot } from '../../src/lib/charts/plot/decimate';
import { draw, type Mark } from '../../src/lib/charts/plot/draw';
import type { Figure } from '../../src/lib/charts/plot/figure';
import { estimated, fitted, linear, logarithmic } from '../../src/lib/charts/plot/label';
import { log, logRange, Step } from '../../src/lib/charts/plot/ticks';
import { probe, stops } from '../../src/lib/charts/probe';
import { rowsOf } from '../../src/lib/charts/values';

const GOLDEN = new URL('../../../crates/report/tests/golden/figures/', import.meta.url);
const read = (name: string) => readFileSync(new URL(name, GOLDEN), 'utf8');
const names = readdirSync(GOLDEN).flatMap((file) => (file.endsWith('.json') ? [file.replace(/\.json$/, '')] : []));

type Shape = Record<string, string>;

/** The elements of a committed drawing, with what their place and form is made of. */
function committed(svg: string): Shape[] {
  const shapes: Shape[] = [];
  for (const [, tag = '', attributes = '', text = ''] of svg.matchAll(/<(path|text|rect|circle)((?: [\w-]+="[^"]*")*)\/?>([^<]*)/g)) {
    const all = Object.fromEntries([...attributes.matchAll(/ ([\w-]+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value]));
    if (all['class'] === 'bg') continue;
    const colour = /^[cf](\d+)/.exec(all['class'] ?? '')?.[1];
    const shape: Shape = { tag, ...(colour !== undefined && { colour }) };
    for (const name of ['d', 'x', 'y', 'cx', 'cy', 'r', 'width', 'height', 'stroke-dasharray', 'stroke-width', 'fill-opacity']) if (all[name] !== undefined) shape[name] = all[name];
    if (tag === 'text') shape['text'] = text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
    shapes.push(shape);
  }
  return shapes;
}

const tenth = (value: number | undefined) => (value === undefined ? undefined : String(Math.round(value * 10) / 10));

function drawn(mark: Mark): Shape {
  const isCircle = mark.tag === 'circle';
  const colour = [mark.stroke, mark.fill].find((one) => typeof one === 'number');
  const all = {
    tag: mark.tag,
    colour: mark.tag === 'text' ? undefined : colour,
    d: mark.d,
    [isCircle ? 'cx' : 'x']: tenth(mark.x),
    [isCircle ? 'cy' : 'y']: tenth(mark.y),
    r: mark.r,
    width: tenth(mark.width),
    height: tenth(mark.height),
    'stroke-dasharray': mark.dash || undefined,
    'stroke-width': mark.thick,
    'fill-opacity': mark.opacity === undefined ? undefined : String(mark.opacity).replace(/^0/, ''),
    text: mark.text,
  };
  return Object.fromEntries(Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])));
}

describe("a figure is drawn as in the report's SVG", () => {
  it.each(names)('%s', (name) => {
    const { marks, height } = draw(JSON.parse(read(`${name}.json`)) as Figure);
    const svg = read(`${name}.svg`);
    expect(marks.map(drawn)).toEqual(committed(svg));
    expect(String(height)).toBe(/height="([\d.]+)"/.exec(svg)?.[1]);
  });

  it('for each committed one', () => {
    expect(names.length).toBeGreaterThan(20);
    expect(names).toEqual(readdirSync(GOLDEN).flatMap((file) => (file.endsWith('.svg') ? [file.replace(/\.svg$/, '')] : [])));
  });
});

const axis = (more: Partial<Figure['x']> = {}): Figure['x'] => ({ label: '', key: 'k', quantity: 'seconds', scale: 'linear', from_zero: false, categories: [], ...more });
const series = (more: Partial<Figure['series'][number]> = {}): Figure['series'][number] => ({ name: 's', mark: 'step', heavy: false, x: [], x_end: [], y: [], low: [], high: [], host_limited: [], ...more });
const figure = (all: Figure['series'], more: Partial<Figure> = {}): Figure => ({ id: 'f', title: 'f', caption: '', x: axis(), y: axis({ quantity: 'bits_per_second', from_zero: true }), series: all, references: [], shades: [], ...more });
/** Levels of 1 s. */
const levels = (y: (number | null)[], more: Partial<Figure['series'][number]> = {}) => series({ x: y.map((_, index) => index), x_end: y.map((_, index) => index + 1), y, ...more });
const of = (marks: Mark[], name: string) => marks.find((mark) => mark.key === name);
const subpaths = (marks: Mark[], name: string) => (of(marks, name)?.d ?? '').split('M').length - 1;

describe('marks of an axis', () => {
  it('are round', () => {
    const marks = (low: number, high: number, wanted: number) => new Step(low, high, wanted).marks(low, high);
    expect(marks(0, 10, 5).marks).toEqual([0, 2, 4, 6, 8, 10]);
    expect(marks(0, 0.3, 3)).toEqual({ marks: [0, 0.1, 0.2, 0.3], decimals: 1 });
    expect(marks(5, 5, 4).marks).toEqual([4.5, 5, 5.5]);
    const [low, high] = logRange(8e-6, 1.3e-3);
    expect([low / 5e-6, high / 2e-3].map((ratio) => ratio.toFixed(9))).toEqual(['1.000000000', '1.000000000']);
    expect(log(1e-6, 1e-2, 6).filter((mark) => mark.major).length).toBe(5);
  });

  it('have labels that differ, however close they are', () => {
    for (const [least, step] of [[0, 1e-7], [1, 1e-8], [1e9, 1e4], [0.99, 0.001], [123_456, 0.5]] as const) {
      const { marks, decimals } = new Step(least, least + 4 * step, 4).marks(least, least + 4 * step);
      const labels = marks.map((mark) => linear(mark, decimals));
      expect(new Set(labels).size, labels.join(', ')).toBe(marks.length);
    }
    expect([logarithmic(1e-5, 'seconds'), logarithmic(1e9, 'bits_per_second'), logarithmic(1e200, 'number')]).toEqual(['10\u00a0µs', '1\u00a0Gbit/s', '1e200']);
    expect([fitted('short', 100), fitted('abcdefghij', estimated('abcde'))]).toEqual(['short', 'abcd…']);
  });
});

it('a line keeps the lowest and the highest of each column', () => {
  const spots: Spot[] = Array.from({ length: 3000 }, (_, index) => [index / 100, (index * 7919) % 501]);
  const fewer = byColumn(spots, 1);
  expect([fewer[0], fewer.at(-1)]).toEqual([spots[0], spots.at(-1)]);
  expect(fewer.length).toBeLessThanOrEqual(2 * 30 + 2);
  const ends = (all: readonly Spot[], column: number) => [Math.min, Math.max].map((pick) => pick(...all.flatMap(([x, y]) => (Math.floor(x) === column ? [y] : []))));
  for (let column = 0; column < 30; column += 1) expect(ends(fewer, column)).toEqual(ends(spots, column));
});

describe('a part of the values', () => {
  const whole = figure([levels([1, 2, 9, 4, 5].map((value) => value * 1e6))]);

  it('fills the plot from edge to edge, and what is outside is not drawn', () => {
    const { x, plot, marks } = draw(whole, { window: { low: 3.25, high: 4.75 } });
    expect([x.place(3.25), x.place(4.75)]).toEqual([plot.left, plot.right]);
    expect([plot.left, plot.right].map((place) => x.valueAt(place))).toEqual([3.25, 4.75]);
    // Two levels and the riser between them.
    expect(of(marks, 'line 0')?.d?.split('L').length).toBe(4);
    // The vertical axis is that of what is shown.
    expect(of(marks, 'y 5')?.text).toBe('5');
  });

  it('keeps the neighbours of a line, which lead in and out', () => {
    const { marks } = draw(figure([series({ mark: 'line', x: [0, 1, 2, 3, 4], y: [1, 2, 3, 4, 5] })]), { window: { low: 1.5, high: 2.5 } });
    expect(of(marks, 'line 0')?.d?.split('L').length).toBe(3);
  });

  it('of a logarithmic axis has labels, too', () => {
    const { marks } = draw({ ...whole, x: axis({ scale: 'log' }) }, { window: { low: 3.1, high: 3.9 } });
    expect(marks.filter((mark) => mark.key.startsWith('x ') && mark.text).length).toBeGreaterThan(2);
  });
});

describe('a live figure', () => {
  it('ends where its data end, and has a gap where nothing was measured', () => {
    const { x, plot, marks } = draw(figure([levels([1e6, null, 1e6, 2e6]), levels([1e6, 1e6])]));
    expect(subpaths(marks, 'line 0')).toBe(2);
    expect(of(marks, 'line 1')?.d?.endsWith(`L${Math.round(x.place(2) * 10) / 10} ${/ ([\d.]+)$/.exec(of(marks, 'line 1')?.d ?? '')?.[1]}`)).toBe(true);
    expect(x.place(4)).toBe(plot.right);
  });

  it('keeps its height and the keys of its elements', () => {
    const [before, after] = [[1e6], [1e6, 3e6]].map((y) => draw(figure([levels(y), levels(y, { name: 't' })]), { height: 240, width: 900 }));
    expect([before?.height, after?.height]).toEqual([240, 240]);
    for (const name of ['line 0', 'line 1', 'name 0', 'grid', 'axis', 'title']) expect(of(after?.marks ?? [], name)?.tag).toBe(of(before?.marks ?? [], name)?.tag);
    const keys = after?.marks.map((mark) => mark.key) ?? [];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('of little height has its titles in one line', () => {
    const { plot, marks, height } = draw(figure([levels([1e6])]), { height: 120 });
    expect(height).toBe(120);
    expect(plot.bottom - plot.top).toBeGreaterThanOrEqual(60);
    expect([of(marks, 'title')?.y, of(marks, 'y title')?.y]).toEqual([14, 14]);
  });
});

describe('the values at a position', () => {
  const two = figure([levels([10, null, 30], { name: 'a' }), series({ name: 'b', mark: 'line', x: [0.5, 2.5], y: [7, 9], low: [6, 8], high: [8, 10], host_limited: [1] })]);
  const { x, plot } = draw(two);
  const readings = (at: number) => probe(two, x, x.place(at));

  it('are those of the interval it is in, and of points near it', () => {
    expect(readings(2.5)).toMatchObject({ x: 2, end: 3, readings: [{ name: 'a', y: 30 }, { name: 'b', y: 9, low: 8, high: 10, host_limited: true }] });
    expect(readings(1.4)?.readings.map((one) => one.y)).toEqual([undefined, undefined]);
  });

  it('are reached one after the other by key', () => {
    expect(stops(two, x, plot).map((place) => Math.round(x.valueAt(place) * 10) / 10)).toEqual([0.5, 1.5, 2.5]);
  });

  it('are none of an empty figure', () => {
    expect(probe(figure([levels([null])]), x, plot.left)).toBeUndefined();
  });
});

describe('a table of values', () => {
  it('has intervals, ranges and what is host-limited', () => {
    const all = figure([series({ x: [1, 2], x_end: [2, 3], y: [10, null], low: [8, null], high: [15, null], host_limited: [0] })]);
    expect(rowsOf(all)).toEqual([
      { series: 's', x: 1, end: 2, y: 10, low: 8, high: 15, host_limited: true },
      { series: 's', x: 2, end: 3, y: undefined, low: undefined, high: undefined, host_limited: false },
    ]);
  });

  it('is bounded', () => {
    expect(rowsOf(figure([levels(Array.from({ length: 1000 }, (_, index) => index))])).length).toBe(200);
  });
});
