import { describe, expect, it } from 'vitest';
import type { Interval, Test } from '../../src/lib/api/shapes';
import { both, LiveTest, lossOf, rowOf } from '../../src/lib/live/tests.svelte';

const counts = (rate: number, more: object = {}) => ({ bytes: rate / 8, packets: 100, bits_per_second: rate, packets_per_second: 100, ...more });
const live = () => new LiveTest({ id: 't', state: 'running', host: 'h', tags: {}, asked_at: '', flows: [{ id: 1, name: 'a' }, { id: 2, name: 'b' }] } as unknown as Test);
const interval = (end: number, ...flows: object[]) => ({ start_seconds: end - 1, end_seconds: end, flows, total: {} }) as unknown as Interval;

describe('the figures of an interval', () => {
  it('are the receiver’s: what was sent does not stand for what arrived', () => {
    const row = rowOf({ sender: counts(10e6, { rtt_seconds: 0.02 }) as never, receiver: null });
    expect(row).toEqual({ rate: undefined, packets: undefined, loss: undefined, jitter: undefined, delay: undefined, sent: 10e6, round_trip: 0.02 });
  });

  it('tell delay from round trip', () => {
    const row = rowOf({ sender: counts(10e6, { rtt_seconds: 0.02 }) as never, receiver: counts(9e6, { lost_packets: 25, mean_delay_seconds: 0.01 }) as never });
    expect([row.rate, row.sent, row.loss, row.delay, row.round_trip]).toEqual([9e6, 10e6, 0.2, 0.01, 0.02]);
  });

  it('of both directions are a sum, zero and all, absent where one is', () => {
    const row = (packets: number | undefined) => ({ ...rowOf({}), packets });
    expect(both(row(0), undefined, 'packets')).toBe(0);
    expect(both(row(1), row(2), 'packets')).toBe(3);
    expect(both(row(1), row(undefined), 'packets')).toBeUndefined();
    expect(both(undefined, undefined, 'packets')).toBeUndefined();
  });
});

describe('a test', () => {
  const warning = (code: string, text = code) => ({ code, severity: 'warning', text }) as unknown as Test['warnings'][number];

  it('has the warnings that it came with, and each once', () => {
    const test = new LiveTest({ ...live().test, warnings: [warning('a')] });
    expect(test.warnings.map((one) => one.code)).toEqual(['a']);
    test.warn(warning('b'));
    test.test = { ...test.test, warnings: [warning('a'), warning('b'), warning('c')] };
    expect(test.warnings.map((one) => one.code)).toEqual(['a', 'b', 'c']);
    for (let more = 0; more < 200; more += 1) test.warn(warning('d', String(more)));
    expect(test.warnings.length).toBe(100);
  });

  it('lost what both directions lost', () => {
    const receiver = (packets: number, lost: number | null) => ({ packets, lost_packets: lost }) as never;
    expect(lossOf([receiver(90, 10), receiver(300, 0)])).toBe(0.025);
    expect(lossOf([receiver(90, 10), receiver(300, null)])).toBe(0.1);
    expect(lossOf([null, undefined, receiver(0, 0)])).toBeUndefined();
  });
});

describe('a far end that falls silent', () => {
  const heard = (id: number) => ({ id, sender: counts(1e6), receiver: counts(1e6) });
  const alone = (id: number) => ({ id, sender: counts(1e6), receiver: null });

  it('is told, with the time since when, and no more once it speaks', () => {
    const test = live();
    test.take(interval(1, heard(1), heard(2)));
    test.take(interval(2, alone(1), heard(2)));
    expect(test.silentSince(1)).toBeUndefined();
    test.take(interval(3, alone(1), heard(2)));
    expect([test.silentSince(1), test.silentSince(2), test.silent]).toEqual([1, undefined, undefined]);
    test.take(interval(4, alone(1), alone(2)));
    test.take(interval(5, alone(1), alone(2)));
    expect([test.silentSince(1), test.silentSince(2), test.silent]).toEqual([1, 3, 3]);
    test.take(interval(6, heard(1), alone(2)));
    expect([test.silentSince(1), test.silent]).toEqual([undefined, undefined]);
  });

  it('is nothing of a flow that has ended, or of a test that has', () => {
    const test = live();
    test.take(interval(9, alone(1), alone(2)));
    expect(test.silent).toBe(0);
    test.test = { ...test.test, flow_states: { a: 'ended' } };
    expect(test.silentSince(1)).toBeUndefined();
    test.test = { ...test.test, state: 'ended' };
    expect(test.silent).toBeUndefined();
  });
});
