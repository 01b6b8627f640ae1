import { describe, expect, it } from 'vitest';
import type { StepOutcome } from '../../src/lib/api/shapes';
import { metricNames, sentInstead } from '../../src/lib/comparison';

const summary = { count: 1, mean: 1e7, min: 1e7, max: 1e7 };
const point = (metric: string) => ({ at: {}, runs: 1, host_limited: 0, failed: 0, metrics: { jitter: summary, [metric]: summary } });
const step = (action: string): Pick<StepOutcome, 'action' | 'points'> => ({ action, points: [point('throughput'), point('sent_throughput')] });

const known = ['throughput', 'loss', 'jitter', 'bytes'].map((name) => ({ name, headline: name !== 'bytes' }));

describe('rates of tools that report only what they sent', () => {
  it('are shown in the throughput column of a comparison, with a note', () => {
    const of = step('compare');
    expect(metricNames(of, known)).toEqual(['throughput', 'jitter']);
    expect((of.points ?? []).map((one) => sentInstead(of, one, 'throughput'))).toEqual([undefined, summary]);
    expect(sentInstead(of, point('sent_throughput'), 'jitter')).toBeUndefined();
  });

  it('have a column of their own in a sweep', () => {
    const of = step('sweep');
    expect(metricNames(of, known)).toEqual(['throughput', 'jitter', 'sent_throughput']);
    expect(sentInstead(of, point('sent_throughput'), 'throughput')).toBeUndefined();
  });
});

describe('trials of a search', () => {
  it('have the rates in its unit and their ratio', () => {
    const names = ['loss', 'packet_rate', 'received_ratio', 'sent_packet_rate', 'throughput'];
    const trial = { at: {}, runs: 1, host_limited: 0, failed: 0, metrics: Object.fromEntries(names.map((name) => [name, summary])) };
    const of = (unit: string) => metricNames({ action: 'search', points: [trial], found: [{ name: 'saturation point', unit }] }, []);
    expect(of('packets_per_second')).toEqual(['packet_rate', 'received_ratio', 'sent_packet_rate']);
    expect(of('bits_per_second')).toEqual(['received_ratio', 'throughput']);
  });
});
