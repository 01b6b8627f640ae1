import { type JsonObject, words } from '../../lib/schema/model';

/** A flow of the staged configuration. */
export interface FlowRow {
  /** JSON pointer: `/flow/0` or `/other`. */
  path: string;
  name: string;
  flow: JsonObject;
  /** Whether it is staged only. */
  isNew: boolean;
}

/** Which packets a flow has. */
export function filterOf(row: FlowRow): string {
  if (row.path === '/other') return 'packets that no filter matches';
  const { filter, filter_a, filter_b, filter_groups } = row.flow;
  const groups = Array.isArray(filter_groups) ? filter_groups.map((name) => `group ${String(name)}`) : [];
  const sides = [filter_a && `at A: ${words(filter_a) || 'every packet'}`, filter_b && `at B: ${words(filter_b) || 'every packet'}`];
  return [words(filter), ...sides, ...groups].filter(Boolean).join('; or ') || 'every packet';
}
