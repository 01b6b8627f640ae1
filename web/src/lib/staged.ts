// Differences between the configuration in force and the staged one, counted by flow and named. Pure.

import { fieldOf, inSentence, isObject, type Json, type JsonObject, resolve, same, type Schema, valueInWords, words } from './schema/model';

/** A direction of a flow's laws, by its key in a configuration. */
export const DIRECTIONS: Record<string, string> = { a_to_b: 'A→B', b_to_a: 'B→A' };

export interface StagedChange {
  kind: 'added' | 'removed' | 'moved' | 'changed';
  /** The flow, or the setting of the whole configuration. */
  what: string;
  isFlow: boolean;
  /** Names the change: `voice, A→B: loss`. */
  text: string;
  before: string;
  after: string;
}

const objectOf = (one: Json | undefined): JsonObject => (isObject(one) ? one : {});
const flowsOf = (document: JsonObject): JsonObject[] => (Array.isArray(document['flow']) ? document['flow'].map(objectOf) : []);
const nameOf = (flow: JsonObject): string => String(flow['name'] ?? '');

/** The flows of a configuration and Other, by name. */
export const flowsByName = (document: JsonObject): ReadonlyMap<string, JsonObject> => new Map([...flowsOf(document).map((flow): [string, JsonObject] => [nameOf(flow), flow]), ['other', objectOf(document['other'])]]);

/** The keys of two objects whose values differ. */
const differing = (a: JsonObject, b: JsonObject): string[] => [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((key) => !same(a[key], b[key]));

/** The indices of a longest ascending subsequence: what stays while the rest moves. */
function ascending(list: readonly number[]): Set<number> {
  const best: number[][] = [];
  for (const [index, value] of list.entries()) {
    const before = best.filter((one) => (list[one.at(-1) ?? 0] ?? 0) < value).reduce<number[]>((longest, one) => (one.length > longest.length ? one : longest), []);
    best.push([...before, index]);
  }
  return new Set(best.reduce((longest, one) => (one.length > longest.length ? one : longest), []));
}

/** The schema of the flows of a configuration. */
const flowSchema = (root: Schema): Schema => resolve(root, root.properties?.['flow']?.items ?? {});

/** Differences within one flow: its laws by direction and slot, its other settings by name. */
function within(root: Schema, what: string, before: JsonObject, after: JsonObject): StagedChange[] {
  const change = (start: string, owner: Schema, key: string, from: JsonObject, to: JsonObject): StagedChange => {
    const field = fieldOf(root, owner, key);
    const text = key === 'name' ? `${what} renamed to ${nameOf(after)}` : `${start}: ${inSentence(field.label)}`;
    return { kind: 'changed', what, isFlow: true, text, before: valueInWords(root, field, from[key]), after: valueInWords(root, field, to[key]) };
  };
  const flow = flowSchema(root);
  return differing(before, after).flatMap((key) => {
    const direction = DIRECTIONS[key];
    if (direction === undefined) return [change(what, flow, key, before, after)];
    const [from, to] = [objectOf(before[key]), objectOf(after[key])];
    return differing(from, to).map((slot) => change(`${what}, ${direction}`, fieldOf(root, flow, key).schema, slot, from, to));
  });
}

function flows(root: Schema, before: JsonObject[], after: JsonObject[]): StagedChange[] {
  const [old, now] = [before.map(nameOf), after.map(nameOf)];
  const whole = (kind: 'added' | 'removed' | 'moved', flow: JsonObject): StagedChange => {
    const { name: _, ...rest } = flow;
    const text = words(rest, root, flowSchema(root)) || 'every packet';
    return { kind, what: nameOf(flow), isFlow: true, text: `${nameOf(flow) || 'a flow without a name'} ${kind}`, before: kind === 'added' ? '' : text, after: kind === 'removed' ? '' : text };
  };
  // A flow that another one replaces in its place has been renamed.
  const renamed = (index: number) => before.length === after.length && !now.includes(old[index] ?? '') && !old.includes(now[index] ?? '');
  const removed = before.filter((_, index) => !now.includes(old[index] ?? '') && !renamed(index)).map((flow) => whole('removed', flow));
  const common = now.flatMap((name, index) => (old.includes(name) ? [{ index, place: old.indexOf(name) }] : []));
  const stays = ascending(common.map((one) => one.place));
  const moved = new Set(common.filter((_, at) => !stays.has(at)).map((one) => one.index));
  const others = after.flatMap((flow, index) => {
    const name = now[index] ?? '';
    if (!old.includes(name)) return renamed(index) ? within(root, old[index] ?? '', before[index] ?? {}, flow) : [whole('added', flow)];
    const inner = within(root, name, before[old.indexOf(name)] ?? {}, flow);
    return moved.has(index) ? [{ ...whole('moved', flow), before: `place ${old.indexOf(name) + 1}`, after: `place ${index + 1}` }, ...inner] : inner;
  });
  return [...removed, ...others];
}

/** All differences: those of flows, of Other, and of the whole configuration. */
export function stagedChanges(before: JsonObject, after: JsonObject, root: Schema = {}): StagedChange[] {
  return differing(before, after).flatMap((key) => {
    if (key === 'flow') return flows(root, flowsOf(before), flowsOf(after));
    if (key === 'other') return within(root, 'other', objectOf(before[key]), objectOf(after[key]));
    const field = fieldOf(root, root, key);
    const label = inSentence(field.label);
    return [{ kind: 'changed' as const, what: label, isFlow: false, text: label, before: valueInWords(root, field, before[key]), after: valueInWords(root, field, after[key]) }];
  });
}

/** The changes in one line, by flow: `4 flows added`, `voice, A→B: loss`. */
export function summaryOf(all: readonly StagedChange[]): string {
  const numbered = (kind: StagedChange['kind']) => {
    const names = new Set(all.filter((one) => one.kind === kind && one.isFlow).map((one) => one.what));
    if (names.size === 0) return [];
    return [names.size === 1 ? (all.find((one) => one.kind === kind)?.text ?? '') : `${names.size} flows ${kind}`];
  };
  const changed = all.filter((one) => one.kind === 'changed');
  const flowsChanged = new Set(changed.filter((one) => one.isFlow).map((one) => one.what));
  const settings = changed.filter((one) => !one.isFlow).map((one) => one.text);
  const named = changed.filter((one) => one.isFlow).map((one) => one.text);
  const inner = named.length <= 2 ? named : [flowsChanged.size === 1 ? `${named.length} changes of ${[...flowsChanged][0] ?? ''}` : `${flowsChanged.size} flows changed (${[...flowsChanged].slice(0, 3).join(', ')}${flowsChanged.size > 3 ? ' …' : ''})`];
  return [...numbered('added'), ...numbered('removed'), ...numbered('moved'), ...inner, ...(settings.length > 2 ? [`${settings.length} settings`] : settings)].join('; ');
}

