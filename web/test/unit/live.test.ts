import { describe, expect, it } from 'vitest';
import { byPlace, errorsBelow, path } from '../../src/lib/api/client';
import { alignedOf } from '../../src/lib/charts/aligned';
import { baselineOf, marksOf, rowsOf as valuesOf } from '../../src/lib/charts/marks';
import { joined, Series } from '../../src/lib/live/series';
import { backoff, EventParser } from '../../src/lib/live/sse';
import type { JsonObject } from '../../src/lib/schema/model';
import { Bindings } from '../../src/lib/bindings';
import { freshName, named, rowsOf } from '../../src/lib/plan';

describe('server-sent events', () => {
  it('are the same however the stream is cut', () => {
    const stream = ': hello\nevent: sample\ndata: {"a":1}\n\nevent: state\r\ndata: x\r\ndata: y\r\nid: 7\r\n\r\ndata: last\n\n';
    const whole = new EventParser().push(stream);
    expect(whole).toEqual([{ event: 'sample', data: '{"a":1}' }, { event: 'state', data: 'x\ny', id: '7' }, { event: 'message', data: 'last', id: '7' }]);
    for (let size = 1; size < 12; size += 1) {
      const parser = new EventParser();
      const events = [];
      for (let from = 0; from < stream.length; from += size) events.push(...parser.push(stream.slice(from, from + size)));
      expect(events, `cut by ${size}`).toEqual(whole);
    }
  });

  it('are asked for again ever more slowly, within bounds', () => {
    const waits = [0, 1, 2, 3, 4, 5, 50].map((attempt) => backoff(attempt, 0.5));
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 8000, 8000]);
    expect(backoff(4, 1)).toBeLessThanOrEqual(8800);
  });
});

describe('a series', () => {
  it('keeps the newest and knows gaps', () => {
    const series = new Series(['at', 'rate'], 3);
    expect(series.last('rate')).toBeUndefined();
    for (let at = 1; at <= 5; at += 1) series.push([at, at === 4 ? undefined : at * 10]);
    expect(series.column('at')).toEqual([3, 4, 5]);
    expect(series.column('rate')).toEqual([30, null, 50]);
    expect(series.last('rate')).toBe(50);
    expect(series.column('nothing')).toEqual([]);
    expect(series.length).toBe(3);
  });
});

describe('series over one axis', () => {
  const series = (rows: [number, number | undefined][]) => {
    const made = new Series(['at', 'rate'], 3);
    for (const row of rows) made.push(row);
    return made;
  };

  it('are joined by their times, wherever they begin and end', () => {
    const early = series([[0.25, 1], [0.5, 2]]);
    const late = series([[119.75, 5], [120, undefined], [120.25, 7]]);
    expect(joined([early, late], 'rate')).toEqual({ x: [0.25, 0.5, 119.75, 120, 120.25], ys: [[1, 2, null, null, null], [null, null, 5, null, 7]] });
    expect(joined([], 'rate')).toEqual({ x: [], ys: [] });
  });

  it('keep the times that they were given', () => {
    const times = [100_000.1, 100_000.2];
    expect(joined([series(times.map((at) => [at, 1]))], 'rate').x).toEqual(times);
  });

  it('have one row for each time, the newest', () => {
    expect(series([[1, 1], [2, undefined], [2, 20], [3, 3], [2, 21], [0.5, 9]]).column('rate')).toEqual([1, 21, 3]);
    expect(series([[1, 1], [2, 2], [3, 3], [4, 4], [1, 9]]).column('at')).toEqual([2, 3, 4]);
  });
});

describe('lines of a plan', () => {
  const plan = (...names: string[]): JsonObject => ({ connection: names.map((name) => ({ name, ...(name === 'many' && { count: 3 }) })) });
  const shown = (bindings: Bindings, of: JsonObject) => rowsOf(of).map((row) => bindings.of(row));

  it('show the test that was started from them, whatever another one calls its connections', () => {
    const [mine, other] = [plan('voice'), plan('voice')];
    const [bindings, others] = [new Bindings(1), new Bindings(1)];
    expect(shown(bindings, mine)).toEqual([undefined]);
    bindings.bind('t1', rowsOf(mine));
    expect(shown(bindings, mine)).toEqual([{ test: 't1', flow: 1 }]);
    expect(shown(others, other)).toEqual([undefined]);
  });

  it('have the flows of their connection in its order', () => {
    const all = plan('a', 'many', 'b');
    const bindings = new Bindings(3);
    bindings.bind('t1', rowsOf(all));
    expect(shown(bindings, all).map((one) => one?.flow)).toEqual([1, 2, 3, 4, 5]);
    // One started alone is the first of its test.
    bindings.bind('t2', rowsOf(all).filter((row) => row.index === 1));
    expect(shown(bindings, all).map((one) => `${one?.test} ${one?.flow}`)).toEqual(['t1 1', 't2 1', 't2 2', 't2 3', 't1 5']);
  });

  it('stay bound while others are edited, removed and added', () => {
    const before = plan('a', 'b', 'c');
    const list = before['connection'] as JsonObject[];
    const bindings = new Bindings(3);
    bindings.bind('t1', rowsOf(before));
    const renamed: JsonObject = { connection: list.map((one, index) => (index === 2 ? { ...one, name: 'd' } : one)) };
    bindings.follow(before, renamed);
    const removed: JsonObject = { connection: (renamed['connection'] as JsonObject[]).slice(1) };
    bindings.follow(renamed, removed);
    const added: JsonObject = { connection: [...(removed['connection'] as JsonObject[]), { name: 'a' }] };
    bindings.follow(removed, added);
    expect(shown(bindings, added)).toEqual([{ test: 't1', flow: 2 }, { test: 't1', flow: 3 }, undefined]);
    bindings.reset(3);
    expect(shown(bindings, added)).toEqual([undefined, undefined, undefined]);
  });

  it('have no flow that was not there when the test was started', () => {
    const before: JsonObject = { connection: [{ name: 'a', count: 2 }] };
    const bindings = new Bindings(1);
    bindings.bind('t1', rowsOf(before));
    expect(shown(bindings, { connection: [{ name: 'a', count: 3 }] }).at(-1)).toBeUndefined();
  });

  it('are bound again after a reload, to the plan that they were of', () => {
    const one = plan('a', 'b');
    const bindings = new Bindings(2);
    bindings.bind('t1', rowsOf(one));
    const kept = JSON.parse(JSON.stringify(bindings.toJson(one))) as unknown;
    expect(shown(Bindings.of(kept, one), one)).toEqual([{ test: 't1', flow: 1 }, { test: 't1', flow: 2 }]);
    expect(shown(Bindings.of(kept, plan('a', 'c')), plan('a', 'c'))).toEqual([undefined, undefined]);
    for (const wrong of [null, 7, [{}], [{ name: 'a', test: 1 }, { name: 'b' }]]) expect(shown(Bindings.of(wrong, one), one)).toEqual([undefined, undefined]);
  });
});

describe('a plan', () => {
  it('expands to the flows that the program makes of it', () => {
    const plan: JsonObject = { connection: [{ name: 'a' }, { name: 'b', count: 3 }] };
    expect(rowsOf(plan).map((row) => [row.name, row.index])).toEqual([['a', 0], ['b-1', 1], ['b-2', 1], ['b-3', 1]]);
  });

  it('is bounded, whatever its count', () => {
    expect(rowsOf({ connection: [{ name: 'a', count: 1e9 }] }).length).toBe(20_000);
    expect(rowsOf({ connection: [{ name: 'a', count: 'many' }] }).length).toBe(1);
    expect(rowsOf({}).length).toBe(0);
  });

  it('gives each connection a name of its own', () => {
    expect(freshName({ connection: [{ name: 'a' }, { name: 'a-2' }] }, 'a')).toBe('a-3');
    expect(named({ connection: [{ transport: 'udp' }, { transport: 'udp' }, { name: 'x' }] })['connection']).toEqual([{ transport: 'udp', name: 'udp' }, { transport: 'udp', name: 'udp-2' }, { name: 'x' }]);
  });
});

describe('errors of the server', () => {
  const errors = [
    { field: '/plan/connection/0/rate', message: 'no' },
    { field: '/plan/connection/0/rate', message: 'never' },
    { field: '/host', message: 'who?' },
    { field: '/planet', message: 'not below' },
  ];

  it('are found by pointer below a root', () => {
    expect([...errorsBelow(errors, '/plan')]).toEqual([['/connection/0/rate', 'no; never']]);
    expect(errorsBelow(errors, '/host').get('')).toBe('who?');
  });

  it('that name a flow are put at its place', () => {
    const found = byPlace(new Map([['/flow/voice/a_to_b/loss', 'no']]), { flow: [{ name: 'other' }, { name: 'voice', a_to_b: {} }] });
    expect([...found]).toEqual([['/flow/1/a_to_b/loss', 'no']]);
  });

  it('paths escape what is put into them', () => {
    expect(path`/plans/${'a/b ?'}`).toBe('/plans/a%2Fb%20%3F');
  });
});

describe('a figure', () => {
  it('puts series over one axis, gaps told from what is not there', () => {
    const axis = { label: '', key: '', quantity: 'seconds', scale: 'linear', from_zero: true, categories: [] };
    const series = (x: (number | null)[], y: (number | null)[]) => ({ name: '', mark: 'line', heavy: false, x, y, x_end: [], low: [], high: [], host_limited: [] });
    const { x, ys } = alignedOf({ x: axis, y: axis, series: [series([1, 3], [10, null]), series([2, 3, null], [20, 30, 40])] });
    expect(x).toEqual([1, 2, 3]);
    expect(ys).toEqual([[10, undefined, null], [undefined, 20, 30]]);
  });

  it('leaves out what a logarithmic axis cannot show', () => {
    const axis = { label: '', key: '', quantity: 'seconds', scale: 'log', from_zero: false, categories: [] };
    const { x, ys } = alignedOf({ x: axis, y: axis, series: [{ name: '', mark: 'line', heavy: false, x: [0, 1, 10], y: [5, 0, 7], x_end: [], low: [], high: [], host_limited: [] }] });
    expect(x).toEqual([1, 10]);
    expect(ys).toEqual([[null, 7]]);
  });
});

describe('what a figure has beside its lines', () => {
  const axis = (scale = 'linear') => ({ label: '', key: '', quantity: 'seconds', scale, from_zero: true, categories: [] });
  const series = (more: object) => ({ name: 's', mark: 'points', heavy: false, x: [1, 2, 3], y: [10, null, 30], x_end: [], low: [], high: [], host_limited: [], ...more });
  const figure = (more: object, one: object = {}) => ({ x: axis(), y: axis(), references: [], shades: [], series: [series(one)], ...more });

  it('is intervals, which the axes hold', () => {
    // A level's name keeps inside the plot: the plot begins at 20, and letters are 11 high.
    expect([60, 35, 34, 20].map((line) => baselineOf(line, 20, 1))).toEqual([56, 31, 47, 33]);
    expect(baselineOf(60, 40, 2)).toBe(86);
    const marks = marksOf(figure({}, { low: [8, null, 25], high: [15, null, 90] }));
    expect(marks.whiskers).toEqual([{ series: 0, x: 1, low: 8, high: 15 }, { series: 0, x: 3, low: 25, high: 90 }]);
    expect([marks.least.y, marks.most.y]).toEqual([8, 90]);
  });

  it('is stretches with the ends that they have', () => {
    const marks = marksOf(figure({}, { mark: 'bars', x: [0, 1, 5], x_end: [1, 5, 9], host_limited: [2] }));
    expect(marks.spans.map((one) => one.riser)).toEqual([undefined, undefined]);
    expect(marks.spans.map((one) => [one.from, one.to, one.y, one.filled])).toEqual([[0, 1, 10, true], [5, 9, 30, true]]);
    expect(marks.host_limited).toEqual([{ series: 0, x: 7, y: 30 }]);
    expect(marks.most.x).toBe(9);
  });

  it('is steps that rise where one level follows the other, and gaps where none does', () => {
    const steps = (y: (number | null)[], x: number[], x_end: number[]) => marksOf(figure({}, { mark: 'step', x, x_end, y })).spans.map((one) => [one.from, one.riser]);
    expect(steps([10, 20, 5], [0, 0.1, 0.2], [0.1, 0.2, 0.3])).toEqual([[0, undefined], [0.1, 10], [0.2, 20]]);
    expect(steps([10, null, 5], [0, 1, 2], [1, 2, 3])).toEqual([[0, undefined], [2, undefined]]);
    expect(steps([10, 20], [0, 5], [1, 6])).toEqual([[0, undefined], [5, undefined]]);
  });

  it('is references and what is left out', () => {
    const marks = marksOf(figure({ references: [{ name: 'asked', place: 'horizontal', at: 50 }, { name: 'same', place: 'diagonal', at: null }], shades: [[0, 1]] }));
    expect(marks.references).toEqual([{ name: 'asked', place: 'horizontal', at: 50 }, { name: 'same', place: 'diagonal', at: undefined }]);
    expect([marks.most.y, marks.shades]).toEqual([50, [[0, 1]]]);
  });

  it('is nothing that a logarithmic axis can not show', () => {
    const marks = marksOf(figure({ y: axis('log'), references: [{ name: 'zero', place: 'horizontal', at: 0 }] }, { low: [0, null, 1], high: [2, null, 3] }));
    expect(marks.whiskers).toEqual([{ series: 0, x: 3, low: 1, high: 3 }]);
    expect(marks.references).toEqual([]);
  });

  it('is a table of values, bounded', () => {
    expect(valuesOf(figure({}, { low: [8, null, 25], high: [15, null, 90], host_limited: [2] }))).toEqual([
      { series: 's', x: 1, end: undefined, y: 10, low: 8, high: 15, host_limited: false },
      { series: 's', x: 2, end: undefined, y: null, low: undefined, high: undefined, host_limited: false },
      { series: 's', x: 3, end: undefined, y: 30, low: 25, high: 90, host_limited: true },
    ]);
    const many = Array.from({ length: 1000 }, (_, index) => index);
    expect(valuesOf(figure({}, { x: many, y: many })).length).toBe(200);
  });
});
