import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { JsonObject, Schema } from '../../src/lib/schema/model';
import { stagedChanges, summaryOf } from '../../src/lib/staged';

const impair = JSON.parse(readFileSync(new URL('../../../docs/schemas/weir.impair-1.schema.json', import.meta.url), 'utf8')) as Schema;
const V = 'weir.impair/1';
const flow = (name: string, more: JsonObject = {}): JsonObject => ({ name, ...more });
const document = (flows: JsonObject[], more: JsonObject = {}): JsonObject => ({ schema: V, ...(flows.length > 0 && { flow: flows }), ...more });
const texts = (before: JsonObject, after: JsonObject) => stagedChanges(before, after).map((one) => one.text);
const summary = (before: JsonObject, after: JsonObject) => summaryOf(stagedChanges(before, after));

describe('staged changes', () => {
  it('are counted by flow: added to none, they are as many as there are', () => {
    const four = ['a', 'b', 'c', 'd'].map((name) => flow(name));
    expect(summary(document([]), document(four))).toBe('4 flows added');
    expect(summary(document(four), document(four.slice(0, 1)))).toBe('3 flows removed');
    expect(summary(document([]), document([flow('voice')]))).toBe('voice added');
  });

  it('name flow, direction and slot', () => {
    const before = document([flow('voice', { a_to_b: { delay: { constant: '5ms' } } })]);
    const after = document([flow('voice', { a_to_b: { delay: { constant: '5ms' }, loss: { percentage: 1 } } })]);
    expect(texts(before, after)).toEqual(['voice, A→B: loss']);
    expect(summary(before, after)).toBe('voice, A→B: loss');
    const [change] = stagedChanges(after, document([flow('voice', { a_to_b: { delay: { constant: '5ms' }, loss: { percentage: 2 } } })]));
    expect([change?.before, change?.after]).toEqual(['percentage 1', 'percentage 2']);
    expect(texts(document([]), document([], { other: { b_to_a: { rate: { bits: '1M' } } } }))).toEqual(['other, B→A: rate']);
  });

  it('have the labels of the schema', () => {
    const changes = (before: JsonObject, after: JsonObject) => stagedChanges(before, after, impair).map((one) => [one.text, one.before, one.after]);
    const bursty = { a_to_b: { loss: { gilbert_elliott: { loss_percentage: 2, mean_run: 4 } } } };
    expect(changes(document([flow('x')]), document([flow('x', bursty)]))).toEqual([['x, A→B: loss', '', 'Gilbert-Elliott (loss 2 %, mean burst length 4 packets)']]);
    expect(changes(document([]), document([flow('x', bursty)]))[0]?.[2]).toBe('A to B: loss: Gilbert-Elliott (loss 2 %, mean burst length 4 packets)');
    expect(changes(document([flow('x')]), document([flow('x', { filter_a: { source_mac: '02::' } })]))).toEqual([['x: other filter at A', '', 'source MAC 02::']]);
    expect(changes(document([]), document([], { impair_arp: true, timeline: { loop: '9s', change: [] } }))).toEqual([['impair ARP and control frames', '', 'yes'], ['timeline', '', 'loop 9s']]);
  });

  it('report one move as one, wherever it goes', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const all = (order: string[]) => document(order.map((name) => flow(name, { filter: { protocol: name } })));
    expect(texts(all(names), all(['f', 'a', 'b', 'c', 'd', 'e']))).toEqual(['f moved']);
    expect(texts(all(names), all(['b', 'c', 'd', 'e', 'f', 'a']))).toEqual(['a moved']);
  });

  it('report a new name as one', () => {
    expect(texts(document([flow('a'), flow('b')]), document([flow('a'), flow('c')]))).toEqual(['b renamed to c']);
  });

  it('are summed up when there are many', () => {
    const loss = (percentage: number) => ({ a_to_b: { loss: { percentage } }, b_to_a: { loss: { percentage } } });
    const names = ['a', 'b', 'c', 'd'];
    expect(summary(document(names.map((name) => flow(name, loss(1)))), document(names.map((name) => flow(name, loss(2)))))).toMatch(/^4 flows changed \(a, b, c/);
    expect(summary(document([]), document([flow('x')], { seed: '0x1' }))).toBe('x added; seed');
    expect(summary(document([flow('a')]), document([flow('a')]))).toBe('');
  });
});
