import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { at, changes, exampleOf, fieldOf, fieldsOf, type JsonObject, lawsOf, pointer, put, same, starterOf, type Schema, words } from '../../src/lib/schema/model';
import { orderOf, othersOf, slotOf, stagesOf } from '../../src/lib/stages';

const read = (name: string) => JSON.parse(readFileSync(new URL(`../../../docs/schemas/weir.${name}-1.schema.json`, import.meta.url), 'utf8')) as Schema;
const impair = read('impair');
const plan = read('plan');
const def = (root: Schema, name: string): Schema => root.$defs?.[name] ?? {};

describe('fields of the published schemas', () => {
  it('know how each is edited', () => {
    const connection = def(plan, 'Connection');
    expect(fieldOf(plan, connection, 'transport')).toMatchObject({ kind: 'choice', initial: 'tcp', choices: [{ value: 'tcp' }, { value: 'udp' }] });
    expect(fieldOf(plan, connection, 'rate')).toMatchObject({ kind: 'quantity', optional: true, accepted: expect.stringContaining('50000pps') as unknown });
    expect(fieldOf(plan, connection, 'verify').kind).toBe('toggle');
    expect(fieldOf(plan, connection, 'tos')).toMatchObject({ kind: 'number', integer: true, maximum: 255, optional: true });
    expect(fieldOf(impair, def(impair, 'Laws'), 'order').kind).toBe('list');
    expect(fieldOf(impair, def(impair, 'ImpairFlow'), 'filter').kind).toBe('object');
  });

  it('none of any schema is left to raw JSON but free maps', () => {
    for (const root of [impair, plan]) {
      for (const schema of [root, ...Object.values(root.$defs ?? {})]) {
        for (const field of fieldsOf(root, schema)) expect(field.kind, field.name).not.toBe('json');
      }
    }
  });

  it('come in the order of use, required ones before others', () => {
    expect(fieldsOf(impair, def(impair, 'Normal')).map((field) => field.name)).toEqual(['mean', 'deviation']);
    expect(fieldsOf(plan, def(plan, 'Connection'), ['name', 'rate']).slice(0, 2).map((field) => field.name)).toEqual(['name', 'rate']);
  });

  it('have examples where their type gives some', () => {
    expect(exampleOf('a time such as 10, 2.5s, 40ms, 100us or 2m (a bare number is seconds)')).toBe('40ms');
    expect(exampleOf('a time (250ms), a size (64K; K is 1024) or packets (100packets)')).toBe('250ms');
    expect(exampleOf('Standard deviation.')).toBe('');
  });
});

describe('laws', () => {
  it('are told from what stands beside them', () => {
    expect(lawsOf(impair, def(impair, 'Delay'))).toEqual(['constant', 'exponential', 'normal', 'uniform']);
    expect(lawsOf(impair, def(impair, 'Loss'))).toEqual(['every_nth', 'gilbert_elliott', 'percentage']);
    expect(lawsOf(impair, def(impair, 'Rate'))).toEqual([]);
  });

  it('appear when the schema gains one', () => {
    const delay = def(impair, 'Delay');
    const grown: Schema = { ...impair, $defs: { ...impair.$defs, Pareto: { type: 'object', properties: { scale: { $ref: '#/$defs/Span' } }, required: ['scale'] }, Delay: { ...delay, properties: { ...delay.properties, pareto: { anyOf: [{ $ref: '#/$defs/Pareto' }, { type: 'null' }], description: 'Pareto.' } } } } };
    expect(lawsOf(grown, def(grown, 'Delay'))).toContain('pareto');
    expect(starterOf(grown, fieldOf(grown, def(grown, 'Delay'), 'pareto'))).toEqual({ scale: '40ms' });
  });

  it('are named by the schema where it does so', () => {
    expect(lawsOf(impair, { 'x-one-of': ['a', 'b'], properties: { a: {}, b: {}, c: {} } })).toEqual(['a', 'b']);
  });

  it('begin with values that are accepted', () => {
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Delay'), 'normal'))).toEqual({ mean: '20ms', deviation: '5ms' });
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Loss'), 'percentage'))).toBe(1);
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Laws'), 'rate'))).toEqual({ bits: '2.5G' });
  });
});

describe('stages', () => {
  it('stand in the engine’s order, or in that of the laws', () => {
    expect(stagesOf(impair).map((stage) => stage.name)).toEqual(['loss', 'rate', 'delay', 'content']);
    expect(orderOf(impair, { order: ['delay', 'nonsense', 'loss'] }).map((stage) => stage.name)).toEqual(['delay', 'loss', 'rate', 'content']);
  });

  it('leave no counter of packets out of sight', () => {
    const counters = { received_packets: 9, sent_packets: 8, lost_packets: 1, marked_packets: 2, paused_packets: 3, delayed_packets: 0, sent_bytes: 7 };
    expect(othersOf(counters, stagesOf(impair))).toEqual(['paused_packets']);
    expect(othersOf(counters, stagesOf(impair).filter((stage) => stage.name !== 'rate'))).toEqual(['marked_packets', 'paused_packets']);
  });

  it('lead to the schema of their slot', () => {
    expect(slotOf(impair, 'delay')).toBe(def(impair, 'Delay'));
    expect(slotOf({}, 'delay')).toEqual({});
  });
});

describe('documents', () => {
  const document: JsonObject = { flow: [{ name: 'a', loss: { percentage: 1 } }, { name: 'b' }] };

  it('are read and changed by pointer without touching what was there', () => {
    expect(at(document, '/flow/0/loss/percentage')).toBe(1);
    expect(at(document, '/flow/7/loss')).toBeUndefined();
    const next = put(document, '/flow/1/loss/percentage', 2);
    expect(at(next, '/flow/1/loss/percentage')).toBe(2);
    expect(at(document, '/flow/1')).toEqual({ name: 'b' });
    expect(put(document, '/flow/0/loss', undefined)).toEqual({ flow: [{ name: 'a' }, { name: 'b' }] });
    expect(put(document, '/flow/0', undefined)).toEqual({ flow: [{ name: 'b' }] });
  });

  it('escape what a pointer has to', () => {
    const path = pointer('', 'a/b~c');
    expect(path).toBe('/a~1b~0c');
    expect(at(put({}, path, 1), path)).toBe(1);
  });

  it('are the same whatever the order of keys', () => {
    expect(same({ a: 1, b: [1, { c: 2 }] }, { b: [1, { c: 2 }], a: 1 })).toBe(true);
    expect(same({ a: 1 }, { a: 1, b: null })).toBe(false);
    expect(same([1], { 0: 1 })).toBe(false);
  });

  it('tell their changes', () => {
    expect(changes(document, put(document, '/flow/0/loss/percentage', 3))).toEqual([{ path: '/flow/0/loss/percentage', before: 1, after: 3 }]);
    expect(changes(document, document)).toEqual([]);
  });

  it('are told in words', () => {
    expect(words({ normal: { mean: '20ms', deviation: '5ms' }, order: 'allow' })).toBe('normal mean 20ms, deviation 5ms, order allow');
    expect(words(undefined)).toBe('');
  });
});
