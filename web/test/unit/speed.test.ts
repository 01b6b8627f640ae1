import { describe, expect, it } from 'vitest';
import { curve, jitter, latencyFigure, median, quantile, sentence, thinned, throughput } from '../../src/speed/figures';
import { added, entryOf } from '../../src/speed/history';

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

describe('round trips', () => {
  it('are dots beside their phase, with median and quartiles', () => {
    const { series, x } = latencyFigure({ idle: [0.01, 0.02, 0.03], download: [], upload: [0.5] });
    expect(x.categories).toHaveLength(3);
    const [dots, box] = series;
    expect(dots?.y).toEqual([0.01, 0.02, 0.03, 0.5]);
    expect(dots?.x.map((place) => Math.round(place ?? Number.NaN))).toEqual([-0, 0, 0, 2]);
    expect(new Set(dots?.x).size).toBe(4);
    expect([box?.x, box?.y, box?.low, box?.high]).toEqual([[0, 2], [0.02, 0.5], [0.015, 0.5], [0.025, 0.5]]);
  });

  it('have quantiles between their values', () => {
    expect(quantile([], 0.5)).toBeUndefined();
    expect(quantile([3, 1, 2, 4], 0.5)).toBe(2.5);
    expect(quantile([4, 1], 0.25)).toBe(1.75);
  });
});

describe('a course', () => {
  it('is reported in steps, with its end', () => {
    const marks = Array.from({ length: 80 }, (_, n) => ({ seconds: (n + 1) / 20, bytes: n }));
    const few = thinned(marks);
    expect(few.length).toBeLessThan(25);
    expect(few.at(-1)).toEqual(marks.at(-1));
    expect(thinned([])).toEqual([]);
  });
});

describe('the history', () => {
  const result = { at: '2026-03-01T00:00:00Z', latency: { idle: [0.01], download: [0.2], upload: [0.4] }, download: { bytes: 1, seconds: 1, bits_per_second: 8 } };
  it('has the figures of a result, not its samples', () => {
    expect(entryOf(result, '/?result=a', 'now')).toEqual({ at: result.at, link: '/?result=a', download: 8, idle: 0.01, loaded: expect.closeTo(0.3) as unknown });
    expect(entryOf({ latency: { idle: [], download: [], upload: [] } }, '', 'now')).toEqual({ at: 'now' });
  });

  it('is short, newest first, each result once', () => {
    const entries = Array.from({ length: 30 }, (_, n) => ({ at: String(n), link: `/${n}` })).reduce<ReturnType<typeof added>>((all, one) => added(all, one), []);
    expect(entries).toHaveLength(20);
    expect(entries[0]?.at).toBe('29');
    expect(added(entries, { at: 'again', link: '/25' }).map((one) => one.link).filter((one) => one === '/25')).toHaveLength(1);
    expect(added([{ at: 'a' }], { at: 'b' })).toHaveLength(2);
  });
});
