// The metrics that the program declares, from which the page builds its tables.

import { get } from './api/client';
import type { Flow, MetricEntry, MetricList } from './api/shapes';
import { lostAnEnd } from './figures';

let loading: Promise<MetricEntry[]> | undefined;

/** All metrics, fetched once. */
export function metrics(): Promise<MetricEntry[]> {
  if (loading === undefined) {
    loading = get<MetricList>('/metrics').then((list) => list.metrics);
    loading.catch(() => (loading = undefined));
  }
  return loading;
}

/** A column of a table of flows. */
export interface MetricColumn {
  head: string;
  help: string;
  unit: string;
  of: (flow: Flow) => number | undefined;
}

const STATISTICS = [
  ['median', 'p50_seconds'],
  ['99 %', 'p99_seconds'],
  ['maximum', 'max_seconds'],
] as const;

/** The value of a metric in a flow; for a distribution, the value of the statistic. */
export function valueOf(metric: MetricEntry, flow: Flow, statistic = 'mean_seconds'): number | undefined {
  const isDatagram = flow.transport === 'udp';
  if ((metric.carrier === 'datagrams' && !isDatagram) || ((metric.carrier === 'streams' || metric.carrier === 'tcp-info') && isDatagram)) return undefined;
  if (!metric.path || (metric.needs_both_ends && lostAnEnd(flow))) return undefined;
  const path = metric.distribution ? [...metric.path.split('.'), statistic] : metric.path.split('.');
  const value = path.reduce<unknown>((place, key) => (place as Record<string, unknown> | null | undefined)?.[key], flow);
  return typeof value === 'number' && !(metric.rare && value === 0) ? value : undefined;
}

/** The columns of a table of flows: the metrics that any of the flows has. Without `all`, only those that comparisons of runs include, and lost packets. */
export function columnsOf(list: readonly MetricEntry[], flows: readonly Flow[], all: boolean): MetricColumn[] {
  const ofFlows = list.filter((metric) => metric.group !== 'run' && (all || metric.compared || metric.needs_both_ends));
  const columns = ofFlows.flatMap((metric): MetricColumn[] => {
    const help = metric.source ? `${metric.source}: ${metric.definition}` : metric.definition;
    if (!metric.distribution) return [{ head: metric.label, help, unit: metric.unit, of: (flow) => valueOf(metric, flow) }];
    return STATISTICS.map(([word, field]) => ({ head: `${metric.label}, ${word}`, help, unit: metric.unit, of: (flow) => valueOf(metric, flow, field) }));
  });
  return columns.filter((column) => flows.some((flow) => column.of(flow) !== undefined));
}

/** The unit of an expression such as `p99 one_way_delay of voice`; absent for an unknown name. */
export function unitOfMetric(list: readonly MetricEntry[], expression: string): string | undefined {
  const name = expression.split(' of ')[0]?.trim().split(' ').at(-1);
  return list.find((metric) => metric.name === name)?.unit;
}
