import type { Board } from '../../lib/emulator.svelte';
import { fieldOf, type Json, type JsonObject, type Schema, valueInWords } from '../../lib/schema/model';

/** A flow of the staged configuration. */
export interface FlowRow {
  /** JSON pointer: `/flow/0` or `/other`. */
  path: string;
  name: string;
  flow: JsonObject;
  /** Whether it is staged only. */
  isNew: boolean;
}

/** The hop that a flow is in, if it is not the first. */
export const hopOf = ({ flow }: FlowRow): string => (Number(flow['hop'] ?? 1) > 1 ? `hop ${String(flow['hop'])}` : '');

/** Which packets a flow has. */
export function filterOf({ schema, staged }: Board, row: FlowRow): string {
  if (row.path === '/other') return 'packets that no filter matches';
  const { filter, filter_a, filter_b, filter_groups } = row.flow;
  const [flow, group] = ['ImpairFlow', 'FilterGroup'].map((name) => schema.$defs?.[name] ?? {}) as [Schema, Schema];
  const one = (value: Json | undefined) => valueInWords(schema, fieldOf(schema, flow, 'filter'), value);
  const groups = (Array.isArray(filter_groups) ? filter_groups : []).map((name) => {
    const own = ((staged['filter_group'] ?? []) as JsonObject[]).find((other) => other['name'] === name);
    const filters = valueInWords(schema, fieldOf(schema, group, 'filters'), own?.['filters']);
    return `group ${String(name)}${filters && ` (${filters})`}`;
  });
  const sides = [filter_a && `at A: ${one(filter_a) || 'every packet'}`, filter_b && `at B: ${one(filter_b) || 'every packet'}`];
  return [one(filter), ...sides, ...groups].filter(Boolean).join('; or ') || 'every packet';
}
