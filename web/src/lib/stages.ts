// The stages of a lane in the engine's order, from the schema: a new stage, slot or counter in the schema needs no change
// here.

import { unitOf } from './format';
import { type Field, fieldOf, type Json, type JsonObject, labelOf, resolve, type Schema, words } from './schema/model';

export interface Counter {
  key: string;
  /** Its name without the unit. */
  label: string;
  /** The unit of its values: `packets`, `bytes`, …; `count` if its name has no unit. */
  unit: string;
  /** Description of the counter. */
  help: string;
}

export interface Stage {
  name: string;
  title: string;
  /** The properties of a direction's laws that belong to it. */
  keys: string[];
  counters: Counter[];
  /** The stage that it immediately follows, unless an order names it. */
  follows: string | undefined;
}

/** The name of a stage as a heading of a narrow column: `Delay`. */
export const headingOf = (stage: Stage): string => stage.name.charAt(0).toUpperCase() + labelOf(stage.name).slice(1);

/** The schema of one direction of a flow. */
const directionLaws = (root: Schema): Schema => root.$defs?.['Laws'] ?? {};
const countersOf = (root: Schema): Schema => resolve(root, root['x-counters'] ?? {});

function counterOf(counters: Schema, key: string): Counter {
  const unit = unitOf(key);
  const { title, description = '' } = counters.properties?.[key] ?? {};
  return { key, label: title ?? labelOf(unit === '' ? key : key.slice(0, -unit.length - 1)), unit: unit || 'count', help: description };
}

/** Names of the properties that belong to the stage, in the order of `required`, then in that of the schema. */
function belonging(to: string, object: Schema): string[] {
  const all = new Set([...(object.required ?? []), ...Object.keys(object.properties ?? {})]);
  return [...all].filter((key) => object.properties?.[key]?.['x-stage'] === to);
}

/** The stages of the schema in their default order, with titles, slots and counters. */
export function stagesOf(root: Schema): Stage[] {
  const counters = countersOf(root);
  return (root.$defs?.['Stage']?.oneOf ?? []).map((one) => {
    const name = String(one.const);
    return {
      name,
      title: (one.description ?? name).replace(/\.$/, ''),
      keys: belonging(name, directionLaws(root)),
      counters: belonging(name, counters).map((key) => counterOf(counters, key)),
      follows: one['x-follows'],
    };
  });
}

/**
 * The stages in the order for these laws: those named by `order` first, the others in their default order. A stage that
 * follows another stays immediately after it, unless it is named.
 */
export function orderOf(root: Schema, laws: JsonObject): Stage[] {
  const all = stagesOf(root);
  const asked = Array.isArray(laws['order']) ? laws['order'].map(String) : [];
  const named = asked.flatMap((name) => all.find((stage) => stage.name === name) ?? []);
  const others = all.filter((stage) => !asked.includes(stage.name));
  const order = [...named, ...others.filter((stage) => stage.follows === undefined)];
  return order.flatMap((stage) => [stage, ...others.filter((other) => other.follows === stage.name)]);
}

/** The laws of a direction that belong to a stage and are set. */
export function pick(laws: Json | undefined, stage: Stage): JsonObject {
  if (laws === null || typeof laws !== 'object' || Array.isArray(laws)) return {};
  return Object.fromEntries(stage.keys.flatMap((key) => (laws[key] === undefined || laws[key] === null ? [] : [[key, laws[key]]])));
}

/** The settings of a direction that belong to no stage, each with a form of its own. */
export function settingsOf(root: Schema): Stage[] {
  const laws = directionLaws(root);
  const keys = Object.keys(laws.properties ?? {}).filter((key) => laws.properties?.[key]?.['x-stage'] === undefined);
  return keys.map((key) => ({ name: key, title: fieldOf(root, laws, key).label, keys: [key], counters: [], follows: undefined }));
}

/** The laws of a stage in words. */
export function wordsOf(root: Schema, stage: Stage, laws: Json | undefined): string {
  const set = pick(laws, stage);
  const [only] = stage.keys;
  return stage.keys.length === 1 && only !== undefined ? words(set[only], root, fieldOf(root, directionLaws(root), only).schema) : words(set, root, directionLaws(root));
}

/** All laws of a direction in words. */
export const lawsInWords = (root: Schema, laws: Json | undefined): string => words(laws, root, directionLaws(root));

/** The slots of a stage. */
export const slotsOf = (root: Schema, stage: Stage): Field[] => stage.keys.map((key) => fieldOf(root, directionLaws(root), key));

/** The schema of a stage's slots as one object, if they are not a single object. */
export function slotsSchema(root: Schema, stage: Stage): Schema {
  const laws = directionLaws(root);
  return { properties: Object.fromEntries(Object.entries(laws.properties ?? {}).filter(([key]) => stage.keys.includes(key))), required: laws.required?.filter((key) => stage.keys.includes(key)) ?? [] };
}

/** Counters that are shown at the two ends of the lane. */
const ENDS = ['received_packets', 'received_bytes', 'sent_packets', 'sent_bytes', 'unplanned_dropped_packets'];

/** Counters that no stage of this lane shows, shown at its end: those of the schema, and others of the report that are above 0. */
export function othersOf(root: Schema, counters: Record<string, number | undefined>, stages: readonly Stage[]): Counter[] {
  const shown = new Set([...ENDS, ...stages.flatMap((stage) => stage.counters.map((one) => one.key))]);
  const known = countersOf(root);
  const told = Object.keys(counters).filter((key) => (counters[key] ?? 0) > 0);
  return [...new Set([...Object.keys(known.properties ?? {}), ...told])].filter((key) => !shown.has(key)).map((key) => counterOf(known, key));
}
