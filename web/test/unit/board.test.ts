// Alarms in groups, histories, and figures of a preview.
import { describe, expect, it } from 'vitest';
import { alarmGroups } from '../../src/lib/alarms';
import type { Alarm, Preview, Report } from '../../src/lib/api/shapes';
import { curvesOf, delayFigure } from '../../src/lib/curves';
import { flowKey, Histories } from '../../src/lib/history';

describe('alarms', () => {
  const alarm = (kind: Alarm['kind'], at_seconds: number, active = false): Alarm => ({ kind, object: 'forward', at_seconds, active, text: `at ${at_seconds}` });
  const all = [alarm('deadline-late', 5), alarm('cpu-high', 6), alarm('deadline-late', 9, true)];

  it('are grouped by kind and object, active ones first', () => {
    const groups = alarmGroups(all);
    expect(groups.map((one) => [one.kind, one.count, one.first, one.last, one.text, one.active])).toEqual([
      ['deadline-late', 2, 5, 9, 'at 9', true],
      ['cpu-high', 1, 6, 6, 'at 6', false],
    ]);
  });

  it('are acknowledged until they are raised again', () => {
    const seen = all.map((one) => ({ ...one, acknowledged_at_seconds: 10 }));
    const of = (alarms: Alarm[]) => alarmGroups(alarms).map((one) => [one.kind, one.count, one.acknowledged]);
    expect(of(seen)).toEqual([['deadline-late', 2, 10], ['cpu-high', 1, 10]]);
    expect(of([...seen, alarm('deadline-late', 12, true)])).toEqual([['deadline-late', 3, undefined], ['cpu-high', 1, 10]]);
  });
});

describe('histories', () => {
  function report(seconds: number, received: number, lost: number, mean: number): Report {
    const sent = received - lost;
    const counters = { received_packets: received, lost_packets: lost, sent_packets: sent, sent_bytes: sent * 100 };
    return { seconds, impairment: { flows: [{ name: 'a', direction: 'forward', counters, realised: { delay_mean_seconds: mean } }] } } as unknown as Report;
  }

  it('have the figures of each interval', () => {
    const histories = new Histories();
    expect(histories.add(report(10, 100, 0, 0.01))).toBe(false);
    expect(histories.add(report(10.1, 110, 0, 0.01))).toBe(false);
    expect(histories.add(report(11, 200, 50, 0.015))).toBe(true);
    const series = histories.of(flowKey({ name: 'a', direction: 'forward' }));
    expect([series?.last('start'), series?.last('at')]).toEqual([10, 11]);
    expect(series?.last('loss')).toBeCloseTo(0.5);
    expect(series?.last('rate')).toBeCloseTo(50 * 100 * 8);
    // 100 packets of 10 ms and 50 of 25 ms have a mean of 15 ms.
    expect(series?.last('delay')).toBeCloseTo(0.025);
  });

  it('start with those of the server, which the next report continues', () => {
    const histories = new Histories();
    const flow = (received_packets: number) => ({ name: 'a', direction: 'forward' as const, received_packets, lost_packets: 0, sent_packets: received_packets, sent_bytes: received_packets * 100, delay_mean_seconds: null });
    histories.restore({ reports: [0, 1, 2].map((seconds) => ({ seconds, flows: [flow(seconds * 100)] })) });
    histories.add(report(3, 400, 100, 0.01));
    const series = histories.of('forward/a');
    expect(series?.column('at')).toEqual([1, 2, 3]);
    expect(series?.column('loss')).toEqual([0, 0, 0.5]);
  });

  it('become steps that are joined, with the asked value of each direction', () => {
    const histories = new Histories();
    for (const [index, seconds] of [100_000.1, 100_000.7, 100_001.3].entries()) histories.add(report(seconds, 100 * index, index, 0.01));
    const history = histories.of('forward/a');
    const [loss] = curvesOf([
      { name: 'A→B', history, asked: { loss_ratio: 0.02 } },
      { name: 'B→A', history: undefined, asked: { loss_ratio: 0.03 } },
    ]);
    expect(loss?.series[0]?.x[1]).toBe(loss?.series[0]?.x_end[0]);
    expect(loss?.series[0]?.y).toHaveLength(2);
    expect(loss?.references.map((one) => [one.place, one.at])).toEqual([['horizontal', 0.02], ['horizontal', 0.03]]);
    const same = curvesOf(['A→B', 'B→A'].map((name) => ({ name, history, asked: { loss_ratio: 0.02 } })));
    expect(same[0]?.references).toHaveLength(1);
  });
});

describe('a preview’s delays', () => {
  const delay = { mean_seconds: 0.02, deviation_seconds: 0.001, min_seconds: 0.01, p50_seconds: 0.02, p90_seconds: 0.02, p99_seconds: 0.02, max_seconds: 0.03, histogram_edges_seconds: [0.01, 0.02, 0.03], histogram_packets: [4, 6], cdf_seconds: [0.01, 0.03], cdf_ratio: [0, 1] } satisfies Preview['delay'];

  it('are drawn over those of the law, if they differ', () => {
    expect(delayFigure({ delay, asked_delay: { ...delay, histogram_packets: [5, 5] } }, 'histogram')?.series.map((one) => one.y)).toEqual([[4, 6], [5, 5]]);
    expect(delayFigure({ delay, asked_delay: delay }, 'cdf')?.series).toHaveLength(1);
    expect(delayFigure({ delay: { ...delay, min_seconds: 0.03 }, asked_delay: null }, 'cdf')).toBeUndefined();
  });
});
