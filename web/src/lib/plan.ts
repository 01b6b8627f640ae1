// A plan as lines of the generator's table, one for each flow. Pure.

import type { Json, JsonObject } from './schema/model';

export interface PlanRow {
  /** Name of the flow, as in records and samples. */
  name: string;
  /** Index of the connection in the plan. */
  index: number;
  /** Index of the flow in the connection, from 0, and number of its flows. */
  copy: number;
  copies: number;
  connection: JsonObject;
}

/** Maximum number of lines of a table; a plan may have more flows. */
export const MOST_ROWS = 20_000;

export const connectionsOf = (plan: JsonObject): JsonObject[] =>
  Array.isArray(plan['connection']) ? (plan['connection'] as Json[]).filter((one): one is JsonObject => one !== null && typeof one === 'object' && !Array.isArray(one)) : [];

/** The flows to which a plan expands, named as by the program (`NAME-1`, `NAME-2`, … if there is a count). */
export function rowsOf(plan: JsonObject): PlanRow[] {
  const rows: PlanRow[] = [];
  for (const [index, connection] of connectionsOf(plan).entries()) {
    const copies = Math.max(1, Math.floor(Number(connection['count'] ?? 1)) || 1);
    const name = String(connection['name'] ?? '');
    for (let copy = 0; copy < copies && rows.length < MOST_ROWS; copy += 1) {
      rows.push({ name: copies > 1 ? `${name}-${copy + 1}` : name, index, copy, copies, connection });
    }
  }
  return rows;
}

/** A name that the plan does not have yet: `udp`, `udp-2`, … */
export function freshName(plan: JsonObject, base: string): string {
  const taken = new Set([...connectionsOf(plan).map((one) => String(one['name'] ?? '')), ...rowsOf(plan).map((row) => row.name)]);
  const stem = base.replace(/-\d+$/, '') || 'connection';
  if (!taken.has(stem)) return stem;
  for (let number = 2; ; number += 1) if (!taken.has(`${stem}-${number}`)) return `${stem}-${number}`;
}

/** The plan with every connection named, to identify its flows while it runs. */
export function named(plan: JsonObject): JsonObject {
  let made: JsonObject = { ...plan, connection: [] };
  for (const connection of connectionsOf(plan)) {
    const name = String(connection['name'] ?? '') || freshName(made, String(connection['transport'] ?? 'tcp'));
    made = { ...made, connection: [...connectionsOf(made), { ...connection, name }] };
  }
  return made;
}

export const emptyPlan = (): JsonObject => ({ schema: 'weir.plan/1', interval: '250ms', connection: [] });

/** Templates of a new line. */
export const STARTERS: { label: string; help: string; connection: JsonObject }[] = [
  { label: 'TCP, to the host', help: 'One stream, as fast as possible.', connection: { name: 'tcp', transport: 'tcp' } },
  { label: 'TCP, from the host', help: 'One stream from the host, as fast as possible.', connection: { name: 'tcp-back', transport: 'tcp', direction: 'reverse' } },
  { label: 'UDP 10 Mbit/s', help: 'Paced datagrams: loss, jitter and delay.', connection: { name: 'udp', transport: 'udp', rate: '10M' } },
];
