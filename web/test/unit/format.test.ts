import { describe, expect, it } from 'vitest';
import { askedBytes, askedRate, axisBytes, bitRate, byUnit, bytes, count, elapsed, milliseconds, percent, seconds, text, unitOf } from '../../src/lib/format';
import { isLossKnown, lostAnEnd } from '../../src/lib/figures';

describe('figures', () => {
  it('scale by powers of ten and keep four digits', () => {
    expect(text(bitRate(19_676_368.55))).toBe('19.68 Mbit/s');
    expect(text(bitRate(999_950))).toBe('1.000 Mbit/s');
    expect(text(bitRate(999))).toBe('999 bit/s');
    expect(text(bytes(1500))).toBe('1.465 KiB');
    expect(text(bytes(1_310_720))).toBe('1.250 MiB');
  });

  it('have lengths of packets in bytes on an axis', () => {
    expect([0, 1200, 1500, 0.5].map((value) => text(axisBytes(value, 2048)))).toEqual(['0 B', '1\u202f200 B', '1\u202f500 B', '0.5000 B']);
    expect(text(axisBytes(1200, 1_000_000))).toBe('1.172 KiB');
    expect(text(axisBytes(undefined, 2048))).toBe(text(bytes(undefined)));
  });

  it('tell absent from zero', () => {
    expect(text(bitRate(undefined))).toBe('–');
    expect(text(bitRate(null))).toBe('–');
    expect(text(bitRate(0))).toBe('0 bit/s');
    expect(text(seconds(Number.NaN))).toBe('–');
  });

  it('show times in the unit that suits them', () => {
    expect(text(seconds(1e-9))).toBe('1.00 ns');
    expect(text(seconds(0.000_011_839))).toBe('11.84 µs');
    expect(text(seconds(0.0203))).toBe('20.30 ms');
    expect(text(seconds(2.5))).toBe('2.500 s');
    expect(text(milliseconds(0.000_021))).toBe('0.021 ms');
  });

  it('never show a share that is not zero as zero', () => {
    expect(text(percent(0.000_01))).toBe('<0.01 %');
    expect(text(percent(0))).toBe('0.00 %');
    expect(text(percent(0.0102, 3))).toBe('1.020 %');
  });

  it('group thousands and tell lengths', () => {
    expect(count(1_234_567)).toBe('1\u202f234\u202f567');
    expect(count(-3)).toBe('−3');
    expect(elapsed(187)).toBe('3 min 07 s');
    expect(elapsed(7500)).toBe('2 h 05 min');
  });

  it('follow the unit that a name ends in', () => {
    expect(text(byUnit('ratio', 0.5))).toBe('50.00 %');
    expect(text(byUnit('seconds', 0.001))).toBe('1.000 ms');
    expect(text(byUnit('per_minute', 1225.4))).toBe('1225 per minute');
    expect(text(byUnit(unitOf('transactions_per_second'), 49_812))).toBe('49.81 ktransactions/s');
    expect(text(byUnit('count', undefined))).toBe('–');
    const names = ['sent_bytes', 'forward.throughput.bits_per_second', 'voice.loss_ratio', 'packets', 'refills', 'kilobytes'];
    expect(names.map(unitOf)).toEqual(['bytes', 'bits_per_second', 'ratio', 'packets', '', '']);
  });
});

describe('what was asked for', () => {
  it('has its unit', () => {
    expect(['10M', '2.5G', '50K', '1000', '50000pps', '5kpps', '10M/32', '333.45049594454053pps', '0', 'odd'].map(askedRate)).toEqual(['10 Mbit/s', '2.5 Gbit/s', '50 kbit/s', '1000 bit/s', '50000 pkt/s', '5 kpkt/s', '10 Mbit/s in bursts of 32', '333.5 pkt/s', 'unlimited', 'odd']);
    expect(['1470', '8K', '1M', 'largest'].map(askedBytes)).toEqual(['1470 B', '8 KiB', '1 MiB', 'largest']);
  });
});

describe('figures of a report', () => {
  it('are written by what they measure', () => {
    expect(text(byUnit('count', 12))).toBe('12');
    expect(text(byUnit('count', 1234567))).toBe('1\u202f234\u202f567');
    expect(text(byUnit('count', 2.5))).toBe('2.500');
    expect(text(byUnit('number', 3))).toBe('3');
    expect(text(byUnit('number', null))).toBe('–');
  });
});

describe('the loss of a run', () => {
  type Flow = Parameters<typeof isLossKnown>[0][number];
  const end = (until?: number | null) => ({ reported_until_seconds: until });
  const flow = (given: object) => ({ transport: 'udp', direction: 'reverse', sender: end(), receiver: end(null), ...given }) as unknown as Flow;

  it('is not known where an end was lost before it reported', () => {
    expect(lostAnEnd(flow({}))).toBe(false);
    expect(lostAnEnd(flow({ receiver: end(3) }))).toBe(true);
    expect(lostAnEnd(flow({ sender: end(0) }))).toBe(true);
  });

  it('is not known where an end of datagrams told nothing at all', () => {
    for (const given of [{ sender: undefined }, { sender: null }, { receiver: undefined }]) expect(lostAnEnd(flow(given))).toBe(true);
    expect(lostAnEnd(flow({ transport: 'tcp', sender: undefined }))).toBe(false);
  });

  it('of a direction is known where that of all its datagrams is', () => {
    const cut = flow({ sender: undefined });
    expect(isLossKnown([flow({}), cut], 'reverse')).toBe(false);
    expect(isLossKnown([flow({}), cut], 'forward')).toBe(true);
    expect(isLossKnown([flow({}), flow({ transport: 'tcp', receiver: end(3) })], 'reverse')).toBe(true);
    expect(isLossKnown([], 'forward')).toBe(true);
  });
});
