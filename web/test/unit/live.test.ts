import { describe, expect, it } from 'vitest';
import { byPlace, errorsBelow, path } from '../../src/lib/api/client';
import { axis, history, overTime } from '../../src/lib/charts/live';
import { Series } from '../../src/lib/live/series';
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

describe('the history of a flow', () => {
  const made = (rows: [from: number, at: number, rate: number | undefined][]) => {
    const series = new Series(['at', 'from', 'rate'], 3);
    for (const [from, at, rate] of rows) series.push([at, from, rate]);
    return series;
  };

  it('is drawn as levels over its intervals, at the times that they have', () => {
    const times = [100_000.1, 100_000.2, 100_000.3] as const;
    const { x, x_end, y, mark } = history('a', made([[times[0], times[1], 1], [times[1], times[2], undefined]]), 'rate');
    expect({ x, x_end, y, mark }).toEqual({ x: times.slice(0, 2), x_end: times.slice(1), y: [1, null], mark: 'step' });
  });

  it('shares a figure with others that began later', () => {
    const figure = overTime('rate', 'Rate', axis('', 'bits_per_second'), [history('a', made([[0, 0.25, 1]]), 'rate'), history('b', made([[119.75, 120, 5]]), 'rate')]);
    expect(figure.series.map((one) => [one.name, one.x, one.x_end])).toEqual([['a', [0], [0.25]], ['b', [119.75], [120]]]);
  });

  it('has one row for each time, the newest', () => {
    const rows: [number, number | undefined][] = [[1, 1], [2, undefined], [2, 20], [3, 3], [2, 21], [0.5, 9]];
    expect(made(rows.map(([at, rate]) => [at - 1, at, rate])).column('rate')).toEqual([1, 21, 3]);
    expect(made([[0, 1, 1], [1, 2, 2], [2, 3, 3], [3, 4, 4], [0, 1, 9]]).column('at')).toEqual([2, 3, 4]);
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
