import { describe, expect, it } from 'vitest';
import { bitRate, byUnit, bytes, count, elapsed, milliseconds, percent, seconds, text } from '../../src/lib/format';

describe('figures', () => {
  it('scale by powers of ten and keep four digits', () => {
    expect(text(bitRate(19_676_368.55))).toBe('19.68 Mbit/s');
    expect(text(bitRate(999_950))).toBe('1.000 Mbit/s');
    expect(text(bitRate(999))).toBe('999 bit/s');
    expect(text(bytes(1500))).toBe('1.500 kB');
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
    expect(text(byUnit('count', undefined))).toBe('–');
  });
});
