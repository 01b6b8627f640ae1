// Aggregates of flows as the card of a member shows them. Pure.

import type { Json, JsonObject, Schema } from './schema/model';
import { DIRECTIONS } from './staged';
import { lawsInWords } from './stages';

export interface Membership {
  /** Place of the aggregate in the configuration, from 0. */
  index: number;
  /** The other members. */
  others: string[];
  /** The shared laws in words, by direction. */
  laws: string;
}

/** The aggregates that a flow is a member of. */
export function aggregatesOf(root: Schema, configuration: JsonObject, flow: string): Membership[] {
  const all = (configuration['aggregate'] ?? []) as JsonObject[];
  return all.flatMap((aggregate, index) => {
    const members = ((aggregate['flows'] ?? []) as Json[]).map(String);
    if (!members.includes(flow)) return [];
    const laws = Object.entries(DIRECTIONS).map(([way, direction]) => `${direction} (${lawsInWords(root, aggregate[way]) || 'no laws'})`);
    return [{ index, others: members.filter((name) => name !== flow), laws: laws.join(', ') }];
  });
}
