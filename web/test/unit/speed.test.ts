import { describe, expect, it } from 'vitest';
import { curve, jitter, median, throughput, verdict } from '../../src/speed/figures';

describe('a phase', () => {
  it('is measured without its ramp', () => {
    const marks = [{ seconds: 0.5, bytes: 100 }, { seconds: 1, bytes: 1000 }, { seconds: 3, bytes: 21_000 }];
    expect(throughput(marks)).toEqual({ bytes: 20_000, seconds: 2, bits_per_second: 80_000 });
  });

  it('is measured whole when it was short', () => {
    expect(throughput([{ seconds: 0.5, bytes: 1000 }])).toEqual({ bytes: 1000, seconds: 0.5, bits_per_second: 16_000 });
    expect(throughput([{ seconds: 1, bytes: 500 }, { seconds: 1.2, bytes: 600 }])?.seconds).toBe(1.2);
  });

  it('without a byte is absent, not zero', () => {
    expect(throughput([])).toBeUndefined();
    expect(throughput([{ seconds: 2, bytes: 0 }])).toBeUndefined();
  });

  it('has a curve of rates between marks', () => {
    expect(curve([{ seconds: 0.1, bytes: 10 }, { seconds: 0.25, bytes: 25 }, { seconds: 0.5, bytes: 100 }])).toEqual([{ at: 0.25, rate: 800 }, { at: 0.5, rate: 2400 }]);
  });
});

describe('round trips', () => {
  it('have a middle and a jitter, or none', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(median([])).toBeUndefined();
    expect(jitter([0.01, 0.03, 0.02])).toBeCloseTo(0.015);
    expect(jitter([1])).toBeUndefined();
  });
});

describe('the verdict', () => {
  const of = (down: number, up: number, idle: number, loaded: number) => verdict({ download: { bytes: 1, seconds: 1, bits_per_second: down * 1e6 }, upload: { bytes: 1, seconds: 1, bits_per_second: up * 1e6 }, latency: { idle: [idle], download: [loaded], upload: [loaded] } });

  it('is good for a fast and quick path', () => {
    const good = of(100, 40, 0.012, 0.03);
    expect(good.tone).toBe('good');
    expect(good.lines[0]).toBe('Enough for video calls, 4K video, games.');
  });

  it('names a queue that is too long', () => {
    const bloated = of(100, 40, 0.02, 0.32);
    expect(bloated.tone).toBe('bad');
    expect(bloated.lines.join(' ')).toContain('300 ms longer');
  });

  it('names a slow path and a lopsided one', () => {
    expect(of(2, 2, 0.02, 0.03).tone).toBe('bad');
    expect(of(50, 1, 0.02, 0.03).lines.at(-1)).toContain('far slower');
  });

  it('says nothing of what was not measured', () => {
    expect(verdict({ download: { bytes: 1, seconds: 1, bits_per_second: 3e7 }, latency: { idle: [0.01], download: [], upload: [] } }).lines).toHaveLength(1);
  });
});
