import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Flow, MetricEntry } from '../../src/lib/api/shapes';
import { columnsOf, unitOfMetric, valueOf } from '../../src/lib/metrics';

const { metrics } = JSON.parse(readFileSync(new URL('../mock/data/metrics.json', import.meta.url), 'utf8')) as { metrics: MetricEntry[] };
const named = (name: string) => metrics.find((one) => one.name === name) as MetricEntry;
const flow = (receiver: object, more: object = {}) => ({ transport: 'udp', sender: {}, receiver, ...more }) as unknown as Flow;

describe('metrics of flows', () => {
  it('are read from their path, and from the statistic of a distribution', () => {
    expect(valueOf(named('jitter'), flow({ jitter_seconds: 0.5 }))).toBe(0.5);
    expect(valueOf(named('one_way_delay'), flow({ one_way_delay: { p99_seconds: 2 } }), 'p99_seconds')).toBe(2);
    expect(valueOf(named('jitter'), flow({}))).toBeUndefined();
  });

  it('are absent for other transports, unknown losses and rare events that did not occur', () => {
    expect(valueOf(named('packets'), flow({ packets: 4 }, { transport: 'tcp' }))).toBeUndefined();
    expect(valueOf(named('loss'), flow({ loss_ratio: 0.1 }))).toBe(0.1);
    expect(valueOf(named('loss'), flow({ loss_ratio: 0.1 }, { sender: null }))).toBeUndefined();
    expect(valueOf(named('implausible_packets'), flow({ implausible_packets: 0 }))).toBeUndefined();
  });

  it('have a column where a flow has a value', () => {
    const flows = [flow({ loss_ratio: 0, packets: 5 })];
    expect(columnsOf(metrics, flows, false).map((one) => one.head)).toEqual(['Loss']);
    expect(columnsOf(metrics, flows, true).map((one) => one.head)).toEqual(['Packets received', 'Loss']);
  });

  it('give expressions their unit', () => {
    expect(unitOfMetric(metrics, 'p99 one_way_delay of voice')).toBe('seconds');
    expect(unitOfMetric(metrics, 'sum throughput')).toBe('bits_per_second');
    expect(unitOfMetric(metrics, 'unknown')).toBeUndefined();
  });
});
