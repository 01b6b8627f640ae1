import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { aggregatesOf } from '../../src/lib/aggregates';
import type { JsonObject, Schema } from '../../src/lib/schema/model';
import { takesCommand, triggerInWords } from '../../src/lib/states';
import { listed, positionInWords, secondsOf, timelineOf } from '../../src/lib/timeline';

const impair = JSON.parse(readFileSync(new URL('../../../docs/schemas/weir.impair-1.schema.json', import.meta.url), 'utf8')) as Schema;
const of = (timeline: JsonObject) => timelineOf(impair, { schema: 'weir.impair/1', timeline });

describe('a timeline', () => {
  it('has times as the server writes them', () => {
    expect(['0s', '60s', '2.5s', '40ms', '100us', '7ns'].map(secondsOf)).toEqual([0, 60, 2.5, 0.04, 0.0001, 7e-9]);
    expect([3, '1.5', '', null, 'soon', '-1s'].map(secondsOf)).toEqual([3, 1.5, undefined, undefined, undefined, undefined]);
  });

  it('ends with its loop, else after the last change', () => {
    const change = [{ at: '10s' }, { at: '20s' }];
    expect(of({ loop: '60s', speed: 2, change })).toMatchObject({ period: 60, speed: 2, end: 60 });
    const once = of({ change });
    expect(once).toMatchObject({ period: undefined, speed: 1 });
    expect(once?.end).toBeGreaterThan(20);
    expect(timelineOf(impair, {})).toBeUndefined();
  });

  it('says what each change sets', () => {
    const laws = { loss: { percentage: 5 }, delay: { constant: '80ms' } };
    const change: JsonObject[] = [{ at: '1s', flow: 'a', a_to_b: laws, b_to_a: laws }, { at: '2s', profile: 'dsl', b_to_a: { loss: { percentage: 1 } } }, { at: '3s', a_to_b: {} }];
    expect(of({ change })?.changes.map((one) => [one.flow, one.text])).toEqual([
      ['a', 'loss: Random 5 %; delay: Constant 80ms'],
      ['other', 'preset dsl; B→A: loss: Random 1 %'],
      ['other', 'A→B: no laws'],
    ]);
  });

  it('has a position', () => {
    const position = { loops: 3, changes: 1, position_seconds: 12.4 };
    const loop = of({ loop: '60s', change: [] });
    const once = of({ change: [] });
    expect(loop && positionInWords(loop, position)).toBe('at 12 s of 1 min 00 s, loop 3');
    expect(once && positionInWords(once, position)).toBe('at 12 s');
  });

  it('is listed around the latest change if it is long', () => {
    const all = Array.from({ length: 1000 }, (_, index) => index);
    expect(listed(all.slice(0, 100), 90)).toHaveLength(100);
    for (const [made, first] of [[0, 0], [40, 0], [500, 450], [1000, 900]] as const) {
      const shown = listed(all, made);
      expect([shown.length, shown[0]]).toEqual([100, first]);
    }
  });
});

describe('a trigger', () => {
  it('says what it waits for', () => {
    expect(triggerInWords({ state: 'waiting', applications: 0, condition: 'command' })).toBe('next: command; laws applied 0 times');
    expect(triggerInWords({ state: 'done', applications: 1 })).toBe('laws applied once');
    expect([takesCommand({ state: 'waiting', applications: 0, condition: 'command' }), takesCommand({ state: 'waiting', applications: 0, condition: 'after 5s' }), takesCommand(undefined)]).toEqual([true, false, false]);
  });
});

describe('an aggregate', () => {
  it('is that of its members', () => {
    const configuration: JsonObject = { aggregate: [{ flows: ['a', 'b'], a_to_b: { rate: { bits: '1M' } } }, { flows: ['c'] }] };
    expect(aggregatesOf(impair, configuration, 'a')).toEqual([{ index: 0, others: ['b'], laws: 'A→B (rate 1 Mbit/s), B→A (no laws)' }]);
    expect(aggregatesOf(impair, configuration, 'c')).toMatchObject([{ index: 1, others: [] }]);
    expect(aggregatesOf(impair, {}, 'a')).toEqual([]);
  });
});
