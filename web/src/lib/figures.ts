// Whether the figures of a record cover the whole run. Pure.

import type { Flow, Record } from './api/shapes';

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
