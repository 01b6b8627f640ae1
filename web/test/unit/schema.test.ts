import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { applies, at, changes, fieldOf, fieldsOf, groupsOf, isClosed, type JsonObject, lacksUnit, lawsOf, pointer, put, same, shortened, starterOf, type Schema, words } from '../../src/lib/schema/model';
import { orderOf, othersOf, pick, slotsOf, stagesOf } from '../../src/lib/stages';

const read = (name: string) => JSON.parse(readFileSync(new URL(`../../../docs/schemas/weir.${name}-1.schema.json`, import.meta.url), 'utf8')) as Schema;
const impair = read('impair');
const plan = read('plan');
const def = (root: Schema, name: string): Schema => root.$defs?.[name] ?? {};

describe('fields of the published schemas', () => {
  it('know how each is edited', () => {
    const connection = def(plan, 'Connection');
    expect(fieldOf(plan, connection, 'transport')).toMatchObject({ kind: 'choice', initial: 'tcp', choices: expect.arrayContaining([expect.objectContaining({ value: 'udp' })]) as unknown });
    expect(fieldOf(plan, connection, 'rate')).toMatchObject({ kind: 'quantity', optional: true, accepted: expect.stringContaining('50000pps') as unknown });
    expect(fieldOf(plan, connection, 'verify').kind).toBe('toggle');
    expect(fieldOf(plan, connection, 'tos')).toMatchObject({ kind: 'number', integer: true, maximum: 255, optional: true });
    expect(fieldOf(impair, def(impair, 'Laws'), 'order').kind).toBe('list');
    expect(fieldOf(impair, def(impair, 'ImpairFlow'), 'filter').kind).toBe('object');
  });

  it('apply to the transports that have them', () => {
    const connection = def(plan, 'Connection');
    const values: JsonObject[] = [{}, { transport: 'udp' }];
    const of = (name: string) => values.map((value) => applies(connection, name, value));
    expect(of('mss')).toEqual([true, false]);
    expect(of('gso')).toEqual([false, true]);
    expect(of('rate')).toEqual([true, true]);
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
    expect(fieldsOf(plan, { properties: { a: {}, b: {}, c: {} }, required: ['c'], 'x-order': ['b', 'gone', 'a'] }).map((field) => field.name)).toEqual(['b', 'a', 'c']);
  });

  it('are in groups, the name first and rare ones in the last, which is closed', () => {
    const groups = groupsOf(fieldsOf(plan, def(plan, 'Connection')));
    expect(groups.map((group) => group.name)).toEqual(['what', 'how-much', 'how-long', 'advanced']);
    expect(groups.map(isClosed)).toEqual([false, false, false, true]);
    expect(groups[0]?.fields[0]?.name).toBe('name');
    expect(groups[1]?.fields.map((field) => field.name)).toContain('rate');
    expect(groups[3]?.fields.map((field) => field.name)).toContain('gso');
    const properties = { a: { 'x-group': 'of_a_new_kind' }, b: {}, c: { 'x-group': 'what' } };
    expect(groupsOf(fieldsOf({}, { properties })).map((group) => group.name)).toEqual(['what', 'of_a_new_kind', 'advanced']);
  });

  it('have labels in plain words and the unit of a bare number', () => {
    const of = (root: Schema, object: string, name: string) => {
      const { label, unit } = fieldOf(root, def(root, object), name);
      return [label, unit];
    };
    expect(of(plan, 'Connection', 'rate')).toEqual(['Rate', 'bit/s']);
    expect(of(plan, 'Connection', 'mss')).toEqual(['Maximum segment size', 'bytes']);
    expect(of(impair, 'Rate', 'overhead_bytes')).toEqual(['Overhead', 'bytes']);
    expect(of(impair, 'GilbertElliott', 'bad_loss_percentage')).toEqual(['Bad loss', '%']);
    expect(of(impair, 'Loss', 'percentage')).toEqual(['Random', '%']);
    expect(of(impair, 'Loss', 'gilbert_elliott')).toEqual(['Gilbert-Elliott', '']);
    expect(of(impair, 'Normal', 'mean')).toEqual(['Mean', 's']);
    expect(['', '10', '2.5 ', '10M', '10M/4'].every(lacksUnit)).toBe(true);
    expect(['40ms', '500pps', '1h', 'EF'].some(lacksUnit)).toBe(false);
  });

  it('show the start of a text that is too long to be edited', () => {
    expect(shortened('trace(1 2 3)')).toBeUndefined();
    const long = `trace(${'1 '.repeat(2000)}2)`;
    const short = shortened(long) ?? '';
    expect(short).toContain(String(long.length));
    expect(long.startsWith(short.slice(0, 50))).toBe(true);
    expect(short.length).toBeLessThan(100);
  });

  it('have the examples of their own, else of their type', () => {
    expect(fieldOf(impair, def(impair, 'Normal'), 'deviation')).toMatchObject({ example: '5ms', placeholder: 'e.g. 5ms' });
    expect(fieldOf(impair, def(impair, 'Rate'), 'queue')).toMatchObject({ example: '250ms', placeholder: 'e.g. 250ms' });
    expect(fieldOf(impair, { properties: { of: { type: 'string', description: 'Words such as 40ms.' } } }, 'of')).toMatchObject({ example: undefined, placeholder: '' });
  });
});

describe('laws', () => {
  it('are those that the schema names, in its order', () => {
    expect(lawsOf(def(impair, 'Delay')).slice(0, 6)).toEqual(['constant', 'uniform', 'normal', 'exponential', 'pareto', 'pareto_normal']);
    expect(lawsOf(def(impair, 'Loss')).slice(0, 5)).toEqual(['percentage', 'every_nth', 'gilbert_elliott', 'four_state', 'correlated']);
    expect(lawsOf(def(impair, 'Rate'))).toEqual([]);
    expect(lawsOf({ description: 'Exactly one law is set.', properties: { a: { type: ['string', 'null'] } } })).toEqual([]);
  });

  it('begin with values that are accepted', () => {
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Delay'), 'normal'))).toEqual({ mean: '20ms', deviation: '5ms' });
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Loss'), 'percentage'))).toBe(1);
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Laws'), 'rate'))).toEqual({ bits: '10M' });
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Loss'), 'every_nth'))).toBe(100);
    expect(starterOf(impair, fieldOf(impair, def(impair, 'Loss'), 'gilbert_elliott'))).toEqual({ loss_percentage: 1, mean_run: 3 });
  });
});

describe('stages', () => {
  it('are in the order of the engine, or in that of the laws', () => {
    expect(stagesOf(impair).map((stage) => stage.name)).toEqual(['loss', 'duplicate', 'police', 'mtu', 'rate', 'delay', 'reorder', 'batch', 'content']);
    expect(orderOf(impair, { order: ['delay', 'nonsense', 'loss'] }).map((stage) => stage.name)).toEqual(['delay', 'reorder', 'loss', 'duplicate', 'police', 'mtu', 'rate', 'batch', 'content']);
  });

  it('leave no counter out of sight', () => {
    const counters = { received_packets: 9, sent_packets: 8, lost_packets: 1, marked_packets: 2, paused_packets: 3, paused_bytes: 4, pauses: 1, idle_bytes: 0, delayed_packets: 0, sent_bytes: 7 };
    const others = (stages = stagesOf(impair)) => othersOf(impair, counters, stages).map((one) => one.key);
    expect(others()).toEqual(['paused_packets', 'paused_bytes', 'pauses']);
    expect(others(stagesOf(impair).filter((stage) => stage.name !== 'rate'))).toEqual(['aqm_dropped_packets', 'queue_dropped_packets', 'paused_packets', 'paused_bytes', 'pauses']);
  });

  it('have the counters that the schema gives them, in the order of reports', () => {
    expect(stagesOf(impair).map((stage) => stage.counters.map((one) => one.label))).toEqual([['lost', 'loss bursts', 'marked'], ['duplicated'], ['policed', 'yellow', 'red', 'DSCP set'], ['too long', 'ICMP too big', 'fragments added'], ['queue-dropped', 'AQM-dropped'], ['delayed', 'delay clamped'], ['reordered'], ['batched'], ['corrupted']]);
  });

  it('lead to the schema of their slot', () => {
    const delay = stagesOf(impair).find((stage) => stage.name === 'delay');
    expect(delay?.keys).toEqual(['delay']);
    expect(delay && slotsOf(impair, delay)[0]?.schema).toBe(def(impair, 'Delay'));
    expect(delay && pick({ delay: { constant: '1s' }, loss: { percentage: 1 }, order: ['delay'] }, delay)).toEqual({ delay: { constant: '1s' } });
    expect(stagesOf({})).toEqual([]);
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

  it('are described as text', () => {
    const slot = (name: string, value: JsonObject) => words(value, impair, def(impair, name));
    expect(slot('Delay', { order: 'allow', normal: { mean: '20ms', deviation: '5ms' } })).toBe('Normal (mean 20ms, deviation 5ms), order allow');
    expect(slot('Loss', { percentage: 2 })).toBe('Random 2 %');
    expect(slot('Loss', { gilbert_elliott: { loss_percentage: 2, mean_run: 4 }, ecn: true })).toBe('Gilbert-Elliott (loss 2 %, mean burst length 4 packets), mark instead of drop (ECN)');
    expect(slot('Rate', { bits: '1M', overhead_bytes: 38, aqm: { codel: {} } })).toBe('rate 1 Mbit/s; overhead 38 B; AQM: CoDel');
    expect(slot('Laws', { order: ['delay', 'loss'], trigger: { start: 'after 3packets', rearm: true } })).toBe('order delay, loss; trigger: start after 3packets, re-arm');
    expect(slot('Filter', { source_mac: '02::', protocol: 'udp' })).toBe('source MAC 02::, protocol udp');
    // A list of tables is described up to a length.
    const change = (at: string) => ({ at, flow: 'a' });
    expect(slot('Timeline', { loop: '9s', change: ['1s', '2s'].map(change) })).toBe('loop 9s; change: at 1s, flow a; at 2s, flow a');
    expect(slot('Timeline', { loop: '9s', change: ['1s', '2s', '3s', '4s'].map(change) })).toBe('loop 9s, 4 changes');
    // Without a schema: the names of the fields.
    expect(words({ mean_run: 4 })).toBe('mean run 4');
    expect(words(undefined)).toBe('');
  });
});
