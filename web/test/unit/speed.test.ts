import { describe, expect, it } from 'vitest';
import { curve, jitter, median, sentence, throughput } from '../../src/speed/figures';

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
    expect(curve([{ seconds: 0.1, bytes: 10 }, { seconds: 0.25, bytes: 25 }, { seconds: 0.5, bytes: 100 }])).toEqual([{ from: 0, to: 0.25, rate: 800 }, { from: 0.25, to: 0.5, rate: 2400 }]);
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
  it('is the server’s sentence, or none', () => {
    expect(sentence('download 100 Mbit/s: enough for 4K video.')).toBe('Download 100 Mbit/s: enough for 4K video.');
    expect(sentence('')).toBeUndefined();
    expect(sentence(undefined)).toBeUndefined();
  });
});
