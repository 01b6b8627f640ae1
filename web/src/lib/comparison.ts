// The metrics of an experiment's step as its table has them: those of `StepOutcome::metric_names` of the program.
import type { StepOutcome } from './api/shapes';

type Point = NonNullable<StepOutcome['points']>[number];
type Summary = Point['metrics'][string];

const SENT = 'sent_throughput';
const FIRST = ['throughput', 'packet_rate', 'loss', 'jitter'];
const rank = (name: string) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

/** Names of the columns. In a comparison, rates of tools that report only what they sent stand with the throughput of the others. */
export function metricNames(step: Pick<StepOutcome, 'action' | 'points'>): string[] {
  const all = (step.points ?? []).flatMap((point) => Object.keys(point.metrics ?? {}));
  const named = all.map((name) => (name === SENT && step.action === 'compare' ? 'throughput' : name));
  return [...new Set(named)].sort((a, b) => rank(a) - rank(b));
}

/** The rate sent, in the place of the throughput that a tool of a comparison does not report. */
export function sentInstead(step: Pick<StepOutcome, 'action'>, point: Pick<Point, 'metrics'>, metric: string): Summary | undefined {
  const absent = metric === 'throughput' && point.metrics?.[metric] === undefined;
  return absent && step.action === 'compare' ? point.metrics?.[SENT] : undefined;
}
