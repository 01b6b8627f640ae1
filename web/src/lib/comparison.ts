// The columns of the table of an experiment's step, as `StepOutcome::metric_names` of the program defines them.
import type { MetricEntry, StepOutcome } from './api/shapes';

type Point = NonNullable<StepOutcome['points']>[number];
type Summary = Point['metrics'][string];

const SENT = 'sent_throughput';

/** Of a search's trials, tables show the rates in its unit and their ratio. */
function isShown(step: Pick<StepOutcome, 'action' | 'found'>, name: string): boolean {
  if (step.action !== 'search') return true;
  const rates = step.found?.[0]?.unit === 'bits_per_second' ? [SENT, 'throughput'] : ['sent_packet_rate', 'packet_rate'];
  return [...rates, 'received_ratio'].includes(name);
}

/** Names of the columns, the headline metrics of `known` first. In a comparison, the column of the throughput also has the sent rates of tools that report nothing else. */
export function metricNames(step: Pick<StepOutcome, 'action' | 'found' | 'points'>, known: readonly Pick<MetricEntry, 'name' | 'headline'>[]): string[] {
  const first = known.filter((metric) => metric.headline).map((metric) => metric.name);
  const rank = (name: string) => (first.includes(name) ? first.indexOf(name) : first.length);
  const all = (step.points ?? []).flatMap((point) => Object.keys(point.metrics ?? {})).filter((name) => isShown(step, name));
  const named = all.map((name) => (name === SENT && step.action === 'compare' ? 'throughput' : name));
  return [...new Set(named)].sort((a, b) => rank(a) - rank(b));
}

/** The sent rate, for a tool of a comparison that does not report its throughput. */
export function sentInstead(step: Pick<StepOutcome, 'action'>, point: Pick<Point, 'metrics'>, metric: string): Summary | undefined {
  const absent = metric === 'throughput' && point.metrics?.[metric] === undefined;
  return absent && step.action === 'compare' ? point.metrics?.[SENT] : undefined;
}
