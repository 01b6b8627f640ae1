// Figures of an emulator's flows over time, from its reports.

import type { EmulatorCounts, EmulatorHistory, Report } from './api/shapes';
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
  #last: EmulatorCounts | undefined;

  /** The intervals of a flow and direction; absent before the second report. */
  of(key: string): Series | undefined {
    return this.#series.get(key);
  }

  /** Replaces all histories by that of the server. */
  restore({ reports }: EmulatorHistory, watched?: string): void {
    this.#series.clear();
    this.#last = undefined;
    for (const report of reports) this.#add(report, watched);
  }

  /** Adds the interval since the last report that was used; returns false if it is too short. */
  add(report: Report, watched?: string): boolean {
    return this.#add(countsOf(report), watched);
  }

  #add(report: EmulatorCounts, watched?: string): boolean {
    const last = this.#last;
    if (last !== undefined && report.seconds >= last.seconds && report.seconds - last.seconds < STEP) return false;
    this.#last = report;
    if (last === undefined || report.seconds < last.seconds) return false;
    const before = new Map(last.flows.map((flow) => [flowKey(flow), flow]));
    const { flows } = report;
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

type FlowCounts = EmulatorCounts['flows'][number];

/** The counters of a report that the histories need. */
function countsOf({ seconds, impairment }: Report): EmulatorCounts {
  const flows = impairment.flows.map(({ name, direction, counters, realised }) => {
    const { received_packets, lost_packets, sent_packets, sent_bytes } = counters;
    return { name, direction, received_packets, lost_packets, sent_packets, sent_bytes, delay_mean_seconds: realised.delay_mean_seconds ?? null };
  });
  return { seconds, flows };
}

/** Loss, output rate and mean delay of an interval of `span` seconds. */
function figures(old: FlowCounts, flow: FlowCounts, span: number): (number | undefined)[] {
  const grown = (name: 'received_packets' | 'sent_packets' | 'sent_bytes' | 'lost_packets') => flow[name] - old[name];
  // Mean delays since the start, at both ends, give that of the packets sent in between.
  const sum = ({ delay_mean_seconds, sent_packets }: FlowCounts) => (delay_mean_seconds ?? 0) * sent_packets;
  const hasDelay = typeof flow.delay_mean_seconds === 'number' && grown('sent_packets') > 0;
  return [grown('received_packets') > 0 ? grown('lost_packets') / grown('received_packets') : undefined, (grown('sent_bytes') * 8) / span, hasDelay ? (sum(flow) - sum(old)) / grown('sent_packets') : undefined];
}
