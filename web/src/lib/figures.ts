// Figures of a record that summarise many values: the page names the statistic. Pure.

import type { Crossing, Flow, Record } from './api/shapes';

interface Distribution {
  mean_seconds: number;
  p50_seconds?: number | null;
}

/** The median, or the mean if there are too few samples for a median. */
export function middleOf(of: Distribution): { word: 'median' | 'mean'; value: number } {
  return typeof of.p50_seconds === 'number' ? { word: 'median', value: of.p50_seconds } : { word: 'mean', value: of.mean_seconds };
}

/** Whether the report of an end of a flow is missing, or, for a datagram flow, an end reported nothing at all. The loss of the whole flow is then unknown. */
export function lostAnEnd(flow: Pick<Flow, 'transport' | 'sender' | 'receiver'>): boolean {
  const { sender, receiver } = flow;
  return (flow.transport === 'udp' && (!sender || !receiver)) || isTime(sender?.reported_until_seconds) || isTime(receiver?.reported_until_seconds);
}

/** Whether the loss of a direction covers the whole run, that is, both ends of every datagram flow reported. */
export function isLossKnown(flows: Record['flows'], direction: Flow['direction']): boolean {
  return !flows.some((flow) => flow.direction === direction && flow.transport === 'udp' && lostAnEnd(flow));
}

function isTime(value: number | null | undefined): boolean {
  return typeof value === 'number';
}

/** How the datagrams of a direction crossed the path: `mixed` if its flows differ; absent without datagrams. */
export function crossingOf(flows: Record['flows'], direction: Flow['direction']): Crossing | undefined {
  const all = new Set(flows.filter((flow) => flow.direction === direction && flow.transport === 'udp').map((flow) => flow.receiver?.crossing));
  const known = [...all].filter((one): one is Crossing => Boolean(one));
  return known.length > 1 ? 'mixed' : known[0];
}
