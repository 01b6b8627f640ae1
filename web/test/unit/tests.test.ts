import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Interval, Record as RunRecord, Test } from '../../src/lib/api/shapes';
import { lossOf, Sums } from '../../src/lib/live/sums';
import { both, figuresOf, LiveTest, lossOfRecord } from '../../src/lib/live/tests.svelte';

const counts = (rate: number, more: object = {}) => ({ bytes: rate / 8, packets: 100, bits_per_second: rate, packets_per_second: 100, ...more });
const live = () => new LiveTest({ id: 't', state: 'running', host: 'h', tags: {}, asked_at: '', flow_states: {}, flows: [{ id: 1, name: 'a' }, { id: 2, name: 'b' }] } as unknown as Test);
const interval = (end: number, ...flows: object[]) => ({ start_seconds: end - 1, end_seconds: end, flows, total: {} }) as unknown as Interval;

describe('the figures of an interval', () => {
  it('are the receiver’s: what was sent does not stand for what arrived', () => {
    const row = figuresOf({ sender: counts(10e6, { rtt_seconds: 0.02 }) as never, receiver: null });
    expect(row).toEqual({ rate: undefined, packets: undefined, loss: undefined, jitter: undefined, delay: undefined, sent: 10e6, round_trip: 0.02 });
  });

  it('tell delay from round trip', () => {
    const row = figuresOf({ sender: counts(10e6, { rtt_seconds: 0.02 }) as never, receiver: counts(9e6, { lost_packets: 25, mean_delay_seconds: 0.01 }) as never });
    expect([row.rate, row.sent, row.loss, row.delay, row.round_trip]).toEqual([9e6, 10e6, 0.2, 0.01, 0.02]);
  });

  it('of both directions are a sum, zero and all, absent where one is', () => {
    const row = (packets: number | undefined) => ({ ...figuresOf({}), packets });
    expect(both(row(0), undefined, 'packets')).toBe(0);
    expect(both(row(1), row(2), 'packets')).toBe(3);
    expect(both(row(1), row(undefined), 'packets')).toBeUndefined();
    expect(both(undefined, undefined, 'packets')).toBeUndefined();
  });
});

describe('a test that runs when the page is opened', () => {
  afterEach(() => void vi.unstubAllGlobals());
  const flow = (rate: number, lost = 0) => ({ id: 1, sender: counts(rate), receiver: counts(rate, { lost_packets: lost }) });
  const whole = (end: number, rate: number) => ({ ...interval(end, flow(rate)), total: { forward: { sender: counts(rate), receiver: counts(rate, { lost_packets: 0 }) } } });
  const sum = { sent_packets: 400, seconds: 3, received_bits: 24e6, received_bytes: 3e6, received_packets: 300, lost_packets: 100, partial: false };

  it('has the curves and the sums of the server, and intervals that arrive meanwhile once', async () => {
    const test = live();
    test.take(whole(4, 16e6));
    expect(test.flows.get(1)?.isPartial).toBe(true);
    vi.stubGlobal('fetch', async (url: string) => {
      expect(url).toMatch(/\/tests\/t\/history\?after=0$/);
      test.take(whole(4, 16e6));
      // The server has dropped the first interval, but its sums include it.
      return new Response(JSON.stringify({ intervals: [whole(2, 8e6), whole(3, 8e6)], sums: { end_seconds: 3, flows: [{ id: 1, ...sum }], forward: sum } }));
    });
    await test.catchUp();
    expect(test.series(1)?.column('at')).toEqual([2, 3, 4]);
    expect(test.total.column('at')).toEqual([2, 3, 4]);
    const row = test.flows.get(1);
    expect([row?.average, row?.received_packets, row?.lost_packets, row?.isPartial]).toEqual([10e6, 400, 100, false]);
    expect(test.latestTotal.forward?.received_packets).toBe(400);
    expect(test.loss).toBe(0.2);
  });

  it('reads the intervals that it missed, but not with each later one', async () => {
    const test = live();
    let reads = 0;
    vi.stubGlobal('fetch', async () => {
      reads += 1;
      return new Response(JSON.stringify({ intervals: [whole(1, 8e6), whole(2, 8e6), whole(3, 8e6)], sums: { end_seconds: 3, flows: [{ id: 1, ...sum }], forward: sum } }));
    });
    test.take(whole(1, 8e6));
    await test.fill(0);
    expect(reads).toBe(0);
    test.take(whole(3, 8e6));
    expect(test.loss).toBeUndefined();
    await test.fill(1);
    expect([reads, test.loss, test.flows.get(1)?.isPartial]).toEqual([1, 0.25, false]);
    expect(test.series(1)?.column('at')).toEqual([1, 2, 3]);
    test.take(whole(5, 16e6));
    await test.fill(9000);
    expect([reads, test.loss]).toEqual([1, undefined]);
    await test.fill(10_001);
    expect(reads).toBe(2);
  });

  it('goes on without a history', async () => {
    const test = live();
    vi.stubGlobal('fetch', async () => new Response('{"intervals":[],"sums":{"end_seconds":0,"flows":[]}}'));
    test.take(whole(1, 8e6));
    await test.catchUp();
    test.take(whole(2, 8e6));
    expect(test.series(1)?.column('at')).toEqual([1, 2]);
    expect(test.flows.get(1)?.isPartial).toBe(false);
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

describe('the figures of a running flow', () => {
  const taken = (list: [start: number, end: number, receiver: object | null, sender?: object][]) => {
    const sums = new Sums();
    for (const [start, end, receiver, sender] of list) sums.take(start, end, { sender: (sender ?? counts(8e6)) as never, receiver: receiver as never });
    return sums;
  };

  it('are means over the last second, whatever the interval', () => {
    const four = [1, 2, 3, 4, 5, 6].map((n) => [(n - 1) / 4, n / 4, counts(n * 1e6, { packets: n })] as [number, number, object]);
    const row = taken(four).row(1.5);
    expect([row.rate, row.packets, row.sent]).toEqual([4.5e6, 18, 8e6]);
    expect(taken([[0, 5, counts(1e6)], [5, 10, counts(3e6)]]).row(10).rate).toBe(3e6);
  });

  it('weigh delays by packets, and have the latest jitter', () => {
    const row = taken([[0, 0.5, counts(1, { packets: 30, mean_delay_seconds: 0.01, jitter_seconds: 1 })], [0.5, 1, counts(1, { packets: 10, mean_delay_seconds: 0.05, jitter_seconds: 2 })]]).row(1);
    expect([row.delay, row.jitter]).toEqual([0.02, 2]);
  });

  it('are absent a second after the flow’s last report; its sums stay', () => {
    const row = taken([[0, 1, counts(8e6, { bytes: 1e6 })]]).row(3);
    expect([row.rate, row.sent, row.received_bytes, row.average]).toEqual([undefined, undefined, 1e6, 8e6]);
  });

  it('add up from the start, with the losses that become known later', () => {
    const row = taken([[0, 1, counts(8e6, { bytes: 1e6, lost_packets: 5 })], [1, 2, counts(16e6, { bytes: 2e6, lost_packets: 0, earlier_lost_packets: 7 })]]).row(2);
    expect([row.average, row.received_bytes, row.received_packets, row.lost_packets, row.isPartial]).toEqual([12e6, 3e6, 200, 12, false]);
  });

  it('are lower bounds where figures are withheld or intervals were missed', () => {
    expect(taken([[0, 1, counts(1)], [1, 2, null]]).row(2).isPartial).toBe(true);
    const test = live();
    test.take(interval(1, { id: 1, sender: counts(1), receiver: counts(1) }));
    expect(test.flows.get(1)?.isPartial).toBe(false);
    test.take(interval(3, { id: 1, sender: counts(1), receiver: counts(1) }));
    expect(test.flows.get(1)?.isPartial).toBe(true);
  });

  it('leave out the omitted start', () => {
    const test = live();
    test.take({ ...interval(1, { id: 1, sender: counts(1), receiver: counts(80e6, { bytes: 1e7 }) }), omitted: true });
    test.take(interval(2, { id: 1, sender: counts(1), receiver: counts(8e6, { bytes: 1e6 }) }));
    expect(test.flows.get(1)?.received_bytes).toBe(1e6);
  });
});

describe('the loss of a running test', () => {
  const total = (end: number, forward: object, more: object = {}) => ({ start_seconds: end - 1, end_seconds: end, flows: [], total: { forward }, ...more }) as unknown as Interval;
  const ends = (sent: number, received: number, lost: number | undefined, earlier?: number) => ({ sender: counts(0, { packets: sent }), receiver: counts(0, { packets: received, lost_packets: lost, earlier_lost_packets: earlier }) });

  it('has the losses of earlier intervals that become known', () => {
    const test = live();
    const shown = [ends(100, 75, 25), ends(100, 0, 0), ends(100, 80, 0, 120), ends(100, 101, 0, -1)].map((one, index) => (test.take(total(index + 1, one)), test.loss));
    expect(shown).toEqual([0.25, 0.125, 145 / 300, 144 / 400]);
    // The curve has each interval's own.
    expect(test.total.column('loss')).toEqual([0.25, null, 0, 0]);
  });

  it('is of all that was sent while the receiver’s figures are withheld', () => {
    const test = live();
    test.take(total(1, ends(100, 95, 5)));
    test.take(total(2, { sender: counts(0, { packets: 100 }) }));
    test.take(total(3, ends(100, 95, 5, 5)));
    expect(test.loss).toBe(0.05);
    // A sender far away whose figures are withheld: what arrived and was lost is known here.
    const reverse = live();
    reverse.take(total(1, { receiver: counts(0, { packets: 75, lost_packets: 25 }) }));
    expect(reverse.loss).toBe(0.25);
  });

  it('is absent where an interval was missed: a correction may be of that one', () => {
    const late = live();
    late.take(total(3, ends(100, 80, 0, 120)));
    expect(late.loss).toBeUndefined();
    const slow = live();
    slow.take(total(1, ends(100, 90, 10)));
    slow.take(total(3, ends(100, 90, 10)));
    expect(slow.loss).toBeUndefined();
  });

  it('leaves out the omitted start, and counts an interval that comes twice once', () => {
    const test = live();
    test.take(total(1, ends(100, 10, 90), { omitted: true }));
    test.take(total(2, ends(100, 90, 10)));
    test.take(total(2, ends(100, 90, 10)));
    test.take(total(3, ends(100, 100, 0)));
    expect(test.loss).toBe(0.05);
  });

  it('is absent where no receiver states one', () => {
    const test = live();
    test.take(total(1, ends(100, 100, undefined)));
    expect(test.loss).toBeUndefined();
  });
});

describe('figures of the far end that do not come', () => {
  const heard = (id: number) => ({ id, sender: counts(1e6), receiver: counts(1e6) });
  const alone = (id: number) => ({ id, sender: counts(1e6), receiver: null });
  const started = () => {
    const test = live();
    test.test = { ...test.test, flow_states: { a: 'started', b: 'started' } };
    return test;
  };

  it('are waited for, and no more once they come', () => {
    const test = started();
    test.take(interval(1, heard(1), heard(2)));
    test.take(interval(2, alone(1), heard(2)));
    expect(test.isWaiting(1)).toBe(false);
    test.take(interval(3, alone(1), heard(2)));
    expect([test.isWaiting(1), test.isWaiting(2)]).toEqual([true, false]);
    test.take(interval(4, heard(1), heard(2)));
    expect(test.isWaiting(1)).toBe(false);
  });

  it('are not waited for of a flow that has not started, has finished, or whose test has', () => {
    const test = started();
    test.take(interval(9, alone(1), alone(2)));
    expect([test.isWaiting(1), test.isWaiting(2)]).toEqual([true, true]);
    test.test = { ...test.test, flow_states: { a: 'finished', b: 'waiting' } };
    expect([test.isWaiting(1), test.isWaiting(2)]).toEqual([false, false]);
    // One that starts late is waited for from then on.
    test.take(interval(20, { id: 2 }));
    test.test = { ...test.test, flow_states: { a: 'finished', b: 'started' } };
    test.take(interval(21, alone(2)));
    expect(test.isWaiting(2)).toBe(false);
    test.take(interval(22, alone(2)));
    expect(test.isWaiting(2)).toBe(true);
    test.test = { ...test.test, state: 'ended' };
    expect(test.isWaiting(2)).toBe(false);
  });

  it('say nothing of the peer: that it is unreachable, its test says', () => {
    const test = started();
    test.take(interval(9, alone(1), alone(2)));
    expect(test.unreachableSince).toBeUndefined();
    test.test = { ...test.test, peer_unreachable_since_seconds: 3.5 };
    expect(test.unreachableSince).toBe(3.5);
    test.test = { ...test.test, state: 'failed' };
    expect(test.unreachableSince).toBeUndefined();
  });
});

describe('a test that has ended', () => {
  const receiver = { bytes: 100, packets: 10, seconds: 10, bits_per_second: 2.375e9, packets_per_second: 7, loss_ratio: 0.25, lost_packets: 4, jitter_seconds: 1e-5, one_way_delay: { mean_seconds: 0.02 } };
  const sender = { bytes: 100, packets: 16, seconds: 10, bits_per_second: 2.5e9, packets_per_second: 9 };
  const flow = (id: number, more: object = {}) => ({ id, name: id === 1 ? 'a' : 'b', transport: 'udp', direction: 'forward', sender, receiver, ...more });
  const record = (more: object = {}) => ({ seconds: 10.03, flows: [flow(1), flow(2, { direction: 'reverse', tcp: { rtt_seconds: 0.5 } })], total: { forward: { sender, receiver } }, intervals: [], ...more }) as unknown as RunRecord;

  it('shows the figures of its record', () => {
    const test = live();
    test.take(interval(10.25, { id: 1, sender: counts(1e6), receiver: counts(95e6) }));
    test.finish(record());
    expect(test.flows.get(1)).toEqual({ rate: 2.375e9, packets: 7, loss: 0.25, jitter: 1e-5, delay: 0.02, sent: 2.5e9, round_trip: undefined, average: 2.375e9, received_bytes: 100, received_packets: 10, lost_packets: 4, isPartial: false });
    expect(test.flows.get(2)?.round_trip).toBe(0.5);
    expect([test.latestTotal.forward?.rate, test.latestTotal.forward?.sent, test.latestTotal.reverse, test.loss, test.seconds]).toEqual([2.375e9, 2.5e9, undefined, 0.25, 10.03]);
    // What comes late of an interval changes nothing.
    test.take(interval(10.5, { id: 1, sender: counts(1e6), receiver: counts(1) }));
    expect([test.flows.get(1)?.rate, test.seconds]).toEqual([2.375e9, 10.03]);
  });

  it('has the curves of its record, gaps filled', () => {
    const test = live();
    test.take(interval(1, { id: 1, sender: counts(1e6), receiver: counts(1e6) }));
    test.take(interval(2, { id: 1, sender: counts(1e6), receiver: null }));
    expect(test.series(1)?.column('rate')).toEqual([1e6, null]);
    const intervals = [1, 2, 3].map((end) => interval(end, { id: 1, sender: counts(1e6), receiver: counts(end * 1e6) }));
    test.finish(record({ intervals }));
    expect([test.series(1)?.column('at'), test.series(1)?.column('rate')]).toEqual([[1, 2, 3], [1e6, 2e6, 3e6]]);
  });

  it('has no loss where an end was lost', () => {
    const test = live();
    test.finish(record({ flows: [flow(1, { receiver: { ...receiver, reported_until_seconds: 5 } })] }));
    expect([test.flows.get(1)?.loss, test.loss]).toEqual([undefined, undefined]);
  });

  it('lost of both directions what both lost of what both sent', () => {
    const total = { forward: { sender: { packets: 100 }, receiver: { loss_ratio: 0.1, lost_packets: 10 } }, reverse: { sender: { packets: 300 }, receiver: { loss_ratio: 0, lost_packets: 0 } } };
    expect(lossOfRecord({ flows: [], total } as unknown as RunRecord)).toBe(0.025);
  });
});
