// Figures of an emulator's flows over time, from its reports.

import type { Report } from './api/shapes';
import { Series } from './live/series';

export type FlowReport = Report['impairment']['flows'][number];

/** Name of a flow and direction. */
export const flowKey = ({ name, direction }: Pick<FlowReport, 'name' | 'direction'>): string => `${direction}/${name}`;

/** The flows of a report, by name and direction. */
export const byFlow = (report: Report | undefined): ReadonlyMap<string, FlowReport> => new Map(report?.impairment.flows.map((flow) => [flowKey(flow), flow]));

/** Start and end of an interval, and its figures. */
const COLUMNS = ['start', 'at', 'loss', 'rate', 'delay'] as const;
/** Minimum length of an interval, s, and the number of intervals. */
const STEP = 0.5;
const POINTS = 600;
/** Number of flows up to which all have a history; beyond it, only the flow that is watched. */
const MOST_FLOWS = 64;

export class Histories {
  #series = new Map<string, Series>();
  #last: Report | undefined;

  /** The intervals of a flow and direction; absent before the second report. */
  of(key: string): Series | undefined {
    return this.#series.get(key);
  }

  /** Adds the interval since the last report that was used; returns false if it is too short. */
  add(report: Report, watched?: string): boolean {
    const last = this.#last;
    if (last !== undefined && report.seconds >= last.seconds && report.seconds - last.seconds < STEP) return false;
    this.#last = report;
    if (last === undefined || report.seconds < last.seconds) return false;
    const before = byFlow(last);
    const { flows } = report.impairment;
    for (const flow of flows) {
      const old = before.get(flowKey(flow));
      if (old === undefined || (flows.length > 2 * MOST_FLOWS && flow.name !== watched)) continue;
      const series = this.#series.get(flowKey(flow)) ?? new Series(COLUMNS, POINTS);
      this.#series.set(flowKey(flow), series);
      series.push([last.seconds, report.seconds, ...figures(old, flow, report.seconds - last.seconds)]);
    }
    return true;
  }
}

/** Loss, output rate and mean delay of an interval of `span` seconds. */
function figures(old: FlowReport, flow: FlowReport, span: number): (number | undefined)[] {
  const grown = (name: 'received_packets' | 'sent_packets' | 'sent_bytes' | 'lost_packets') => flow.counters[name] - old.counters[name];
  // Mean delays since the start, at both ends, give that of the packets sent in between.
  const sum = ({ realised, counters }: FlowReport) => (realised.delay_mean_seconds ?? 0) * counters.sent_packets;
  const hasDelay = typeof flow.realised.delay_mean_seconds === 'number' && grown('sent_packets') > 0;
  return [grown('received_packets') > 0 ? grown('lost_packets') / grown('received_packets') : undefined, (grown('sent_bytes') * 8) / span, hasDelay ? (sum(flow) - sum(old)) / grown('sent_packets') : undefined];
}
