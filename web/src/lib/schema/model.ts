// Reads JSON Schemas (draft 2020-12, the dialect of `weir schema`) for forms. Pure.
// The page refers to no field of a schema by name: labels, help, choices and defaults come from the schema.

import { askedBytes, askedRate } from '../format';

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  const?: Json;
  enum?: Json[];
  default?: Json;
  /** Accepted values; the first is the initial one. */
  examples?: Json[];
  description?: string;
  title?: string;
  format?: string;
  minimum?: number;
  maximum?: number;
  /** Names of properties of which at most one is set, in the order in which they are offered: the laws of a slot. */
  'x-one-of'?: string[];
  /** The stage of the engine's order that a slot or a counter belongs to. */
  'x-stage'?: string;
  /** The stage that this stage immediately follows, unless an order names it. */
  'x-follows'?: string;
  /** The transports of a connection that have this option; absent: all. */
  'x-transports'?: string[];
  /** The counters of an emulator with this configuration. */
  'x-counters'?: Schema;
  /** The properties in the order in which a form shows them. */
  'x-order'?: string[];
  /** The part of the form that a property belongs to. */
  'x-group'?: string;
  /** The unit of a number without one. */
  'x-unit'?: string;
}

export interface Choice {
  value: string;
  help: string;
}

/** How a field is edited. */
export type Kind = 'choice' | 'toggle' | 'number' | 'quantity' | 'text' | 'object' | 'map' | 'list' | 'json';

export interface Field {
  name: string;
  label: string;
  /** The part of the form that it belongs to. */
  group: string;
  /** The unit of a number without one; empty if it has none. */
  unit: string;
  kind: Kind;
  /** What the field means, from its own description. */
  help: string;
  /** The accepted values, from the description of its type. */
  accepted: string;
  placeholder: string;
  /** An accepted value; absent if the schema has no example. */
  example: Json | undefined;
  /** Whether null or an absent value is accepted and means that nothing is set. */
  optional: boolean;
  required: boolean;
  initial: Json | undefined;
  choices: Choice[];
  integer: boolean;
  minimum?: number;
  maximum?: number;
  /** The schema with references resolved and without null. */
  schema: Schema;
}

/** Follows `$ref` within `root`; at most 32 steps, so that a loop ends. */
export function resolve(root: Schema, schema: Schema): Schema {
  let here = schema;
  for (let step = 0; step < 32 && here.$ref !== undefined; step += 1) {
    const name = /^#\/\$defs\/(.+)$/.exec(here.$ref)?.[1];
    const next = name === undefined ? undefined : root.$defs?.[name.replaceAll('~1', '/').replaceAll('~0', '~')];
    if (next === undefined) break;
    here = next;
  }
  return here;
}

/** The schema without the alternative `null`, and whether there was one. */
function withoutNull(root: Schema, schema: Schema): [Schema, boolean] {
  const options = schema.anyOf ?? (schema.oneOf?.some((one) => one.type === 'null') ? schema.oneOf : undefined);
  if (options !== undefined) {
    // A string as an alternative to a table is omitted, since the form of the table covers it.
    const hasTable = options.some((one) => resolve(root, one).properties !== undefined);
    const rest = options.filter((one) => one.type !== 'null' && !(hasTable && one.type === 'string'));
    const [only] = rest;
    if (rest.length === 1 && only !== undefined) return [resolve(root, only), options.some((one) => one.type === 'null')];
  }
  if (schema.allOf?.length === 1 && schema.allOf[0] !== undefined) return [resolve(root, schema.allOf[0]), false];
  const found = resolve(root, schema);
  if (Array.isArray(found.type) && found.type.includes('null')) {
    const types = found.type.filter((type) => type !== 'null');
    const [only] = types;
    const type = types.length === 1 && only !== undefined ? only : types;
    return [{ ...found, type }, true];
  }
  return [found, false];
}

function choicesOf(schema: Schema): Choice[] {
  if (schema.enum !== undefined) return schema.enum.map((value) => ({ value: String(value), help: '' }));
  const options = schema.oneOf ?? schema.anyOf ?? [];
  if (options.length === 0 || !options.every((one) => one.const !== undefined || one.enum !== undefined)) return [];
  return options.flatMap((one) =>
    one.const !== undefined
      ? [{ value: String(one.const), help: plainly(one.description ?? '') }]
      : (one.enum ?? []).map((value) => ({ value: String(value), help: plainly(one.description ?? '') })),
  );
}

function kindOf(schema: Schema, choices: Choice[]): Kind {
  if (choices.length > 0) return 'choice';
  if (Array.isArray(schema.type)) {
    return schema.type.every((type) => ['string', 'number', 'integer'].includes(type)) ? 'quantity' : 'json';
  }
  switch (schema.type) {
    case 'boolean':
      return 'toggle';
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
      return 'text';
    case 'array':
      return 'list';
    case 'object':
      return schema.properties === undefined ? 'map' : 'object';
    default:
      return schema.properties === undefined ? 'json' : 'object';
  }
}

/** `bad_loss_percentage` as `bad loss percentage`, as text in the notation of files. */
export const labelOf = (name: string): string => name.replaceAll('_', ' ');

/** Units in which the names of fields end, and their symbols. */
const UNITS: Record<string, string> = { percentage: '%', bytes: 'bytes', packets: 'packets', seconds: 's' };

/** The name of a field as a label, and the unit in which it ends: `overhead_bytes` as `Overhead` in bytes. */
function labelAndUnit(name: string): [string, string] {
  const [, rest, ending = ''] = /^(?:(.+)_)?([a-z]+)$/.exec(name) ?? [];
  const unit = UNITS[ending] ?? '';
  const label = labelOf(unit !== '' && rest !== undefined ? rest : name);
  return [label.charAt(0).toUpperCase() + label.slice(1), unit];
}

/** Whether a typed text is a number without a unit, maybe with a prefix, or nothing. */
export const lacksUnit = (typed: string): boolean => /^\s*[\d.,]*\s*[kKMGT]?(\/\d*)?\s*$/.test(typed);

/** The field of a property of an object. */
export function fieldOf(root: Schema, owner: Schema, name: string): Field {
  const own = owner.properties?.[name] ?? {};
  const [schema, nullable] = withoutNull(root, own);
  const choices = choicesOf(schema);
  const required = owner.required?.includes(name) ?? false;
  const typeWords = schema === own ? '' : (schema.description ?? '');
  const kind = kindOf(schema, choices);
  const initial = own.default ?? schema.default;
  const plain = kind === 'quantity' || kind === 'number' || kind === 'text';
  const fallback = initial !== undefined && initial !== null && plain ? String(initial) : '';
  const example = (own.examples ?? schema.examples)?.[0];
  const [label, unit] = labelAndUnit(name);
  return {
    name,
    label: own.title ?? schema.title ?? label,
    group: own['x-group'] ?? ADVANCED,
    unit: own['x-unit'] ?? schema['x-unit'] ?? (kind === 'number' ? unit : ''),
    kind,
    help: plainly(own.description ?? schema.description ?? ''),
    accepted: plain ? plainly(typeWords) : '',
    placeholder: fallback !== '' ? fallback : plain && example !== undefined ? `e.g. ${String(example)}` : '',
    example,
    optional: nullable || !required,
    required,
    initial,
    choices,
    integer: schema.type === 'integer',
    // Unsigned types have only `minimum: 0`; the parser checks further limits and reports them.
    ...(schema.minimum !== undefined && { minimum: schema.minimum }),
    ...(schema.maximum !== undefined && { maximum: schema.maximum }),
    schema,
  };
}

/** Removes the only Markdown that descriptions use: backticks around code. */
const plainly = (text: string) => text.replace(/`([^`]*)`/g, '$1');

/** All properties of an object: in the order of its schema, else the required ones first. */
export function fieldsOf(root: Schema, object: Schema): Field[] {
  const all = Object.keys(object.properties ?? {});
  const names = [...(object['x-order'] ?? object.required ?? []), ...all].filter((name) => all.includes(name));
  return [...new Set(names)].map((name) => fieldOf(root, object, name));
}

/** The group of fields that name none. */
const ADVANCED = 'advanced';
const GROUPS = ['what', 'how-much', 'how-long'];

export interface Group {
  name: string;
  label: string;
  fields: Field[];
}

/** The parts of a form in the order in which they are shown, each with its fields; those without a field are absent. */
export function groupsOf(fields: readonly Field[]): Group[] {
  const named = fields.map((field) => field.group).filter((name) => name !== ADVANCED);
  return [...new Set([...GROUPS, ...named, ADVANCED])]
    .map((name) => ({ name, label: labelAndUnit(name.replaceAll('-', '_'))[0], fields: fields.filter((field) => field.group === name) }))
    .filter((group) => group.fields.length > 0);
}

/** Whether a group is closed until it is asked for. */
export const isClosed = (group: Group): boolean => group.name === ADVANCED;

/** Whether a field applies to the value of its object: options of some transports apply only if the value has one of these. */
export function applies(object: Schema, name: string, value: JsonObject): boolean {
  const transports = object.properties?.[name]?.['x-transports'];
  const transport = value['transport'] ?? object.properties?.['transport']?.default;
  return transports === undefined || transports.includes(String(transport));
}

/** The properties of which at most one may be set, if the object is a slot for a law. */
export const lawsOf = (object: Schema): string[] => object['x-one-of'] ?? [];

/** A typed text converted to the schema's type; absent if empty. An invalid number is passed to the server, whose message is better. */
export function parsed(field: Field, typed: string): Json | undefined {
  if (typed.trim() === '') return field.required && field.kind === 'text' ? '' : undefined;
  if (field.kind !== 'number') return typed;
  const number = Number(typed.replace(',', '.'));
  return Number.isFinite(number) ? number : typed;
}

/** Maximum length of a text that a form edits: longer ones, such as a trace, come from files. */
const LONGEST = 2000;

/** What a form shows of a text that is too long to be edited there; undefined if it can be. */
export const shortened = (text: string): string | undefined => (text.length > LONGEST ? `${text.slice(0, 60)} … (${text.length} characters)` : undefined);

/** Initial value of a field that is switched on: the schema's example, which works immediately. */
export function starterOf(root: Schema, field: Field): Json {
  if (field.initial !== undefined && field.initial !== null) return field.initial;
  if (field.example !== undefined) return structuredClone(field.example);
  switch (field.kind) {
    case 'choice':
      return field.choices[0]?.value ?? '';
    case 'toggle':
      return true;
    case 'number':
      return Math.max(1, field.minimum ?? 1);
    case 'quantity':
    case 'text':
      return '';
    case 'list':
      return [];
    case 'object':
    case 'map':
      return starterObject(root, field.schema);
    default:
      return null;
  }
}

/** An object with its required parts set. */
export function starterObject(root: Schema, object: Schema): JsonObject {
  const made: JsonObject = {};
  for (const name of object.required ?? []) made[name] = starterOf(root, fieldOf(root, object, name));
  return made;
}

const escape = (step: string) => step.replaceAll('~', '~0').replaceAll('/', '~1');

/** Appends a step to a JSON pointer (RFC 6901). */
export const pointer = (base: string, step: string | number): string => `${base}/${escape(String(step))}`;

/** The steps of a JSON pointer. */
export const stepsOf = (path: string): string[] =>
  path.split('/').slice(1).map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));

/** The value at a pointer, or undefined. */
export function at(value: Json | undefined, path: string): Json | undefined {
  let here: Json | undefined = value;
  for (const step of stepsOf(path)) {
    if (Array.isArray(here)) here = here[Number(step)];
    else if (here !== null && typeof here === 'object') here = here[step];
    else return undefined;
  }
  return here;
}

/** A copy of `value` with `next` at the pointer; `undefined` removes. Missing objects on the path are created. */
export function put(value: Json | undefined, path: string, next: Json | undefined): Json {
  const [step, ...rest] = stepsOf(path);
  if (step === undefined) return next ?? null;
  const below = rest.map((one) => `/${escape(one)}`).join('');
  if (Array.isArray(value)) {
    const copy = [...value];
    const index = Number(step);
    if (below === '' && next === undefined) copy.splice(index, 1);
    else copy[index] = put(copy[index], below, next);
    return copy;
  }
  const copy: JsonObject = value !== null && typeof value === 'object' ? { ...value } : {};
  if (below === '' && next === undefined) delete copy[step];
  else copy[step] = put(copy[step], below, next);
  return copy;
}

/** Whether two JSON values are equal, regardless of the order of keys. */
export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((one, index) => same(one, b[index]));
  }
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false;
  if (Array.isArray(a) || Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && same(a[key], b[key]));
}

/** Whether a value is a table, and not a list. */
export const isObject = (one: Json | undefined): one is JsonObject => one !== null && typeof one === 'object' && !Array.isArray(one);

/** The leaves that differ, with pointer and both values: shown for staged changes before they are applied. */
export function changes(before: Json | undefined, after: Json | undefined, base = ''): Change[] {
  if (same(before, after)) return [];
  const hasParts = (one: Json | undefined): one is JsonObject | Json[] => one !== null && typeof one === 'object';
  if (hasParts(before) && hasParts(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => changes(at(before, `/${escape(key)}`), at(after, `/${escape(key)}`), pointer(base, key)));
  }
  return [{ path: base, before, after }];
}

export interface Change {
  path: string;
  before: Json | undefined;
  after: Json | undefined;
}

/** A label within a sentence: `mean burst length`; names such as `AQM` or `EtherType` keep their capitals. */
export const inSentence = (label: string): string => (/^[A-Z][a-z][a-z-]*(\s|$)/.test(label) ? label.charAt(0).toLowerCase() + label.slice(1) : label);

/** Number of tables of a list up to which each is described. */
const MOST_TABLES = 3;

/** The value of a field in words, a plain one with its unit. */
export function valueInWords(root: Schema, { kind, unit, schema }: Field, value: Json | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return words(value, root, schema);
  const typed = String(value);
  if (unit === '' || (kind !== 'number' && !lacksUnit(typed))) return typed;
  return unit === 'bit/s' ? askedRate(typed) : unit === 'bytes' ? askedBytes(typed) : `${typed} ${unit}`;
}

const isTables = (list: Json[]): boolean => list.some((one) => one !== null && typeof one === 'object');

/**
 * A value as text, with the labels of its schema: `Normal (mean 20ms, deviation 5ms), order fifo-release`. Without a schema it has the
 * names of its fields.
 */
export function words(value: Json | undefined, root: Schema = {}, schema: Schema = {}): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map((one) => words(one, root, schema.items === undefined ? {} : resolve(root, schema.items))).join(isTables(value) ? '; ' : ', ');
  if (typeof value !== 'object') return String(value);
  const laws = lawsOf(schema);
  const set = Object.entries(value).filter(([, one]) => one !== null && !(Array.isArray(one) && one.length === 0));
  const parts = [...set.filter(([name]) => laws.includes(name)), ...set.filter(([name]) => !laws.includes(name))].map(([name, one]) => partOf(root, fieldOf(root, schema, name), one, laws.includes(name)));
  return parts.map((part) => part.text).join(parts.some((part) => part.isLong) ? '; ' : ', ');
}

/** A field with its value; one with several values of its own is long. */
function partOf(root: Schema, field: Field, value: Json, isLaw: boolean): { text: string; isLong: boolean } {
  const label = isLaw ? field.label : inSentence(field.label);
  const short = (text: string) => ({ text, isLong: false });
  if (typeof value === 'boolean') return short(value ? label : `${label} no`);
  if (Array.isArray(value)) {
    if (!isTables(value)) return short(`${label} ${words(value)}`);
    if (value.length > MOST_TABLES) return short(`${value.length} ${label}${label.endsWith('s') ? '' : 's'}`);
    return { text: `${label}: ${words(value, root, field.schema)}`, isLong: true };
  }
  if (value === null || typeof value !== 'object') return short(`${label} ${valueInWords(root, field, value)}`);
  const inner = words(value, root, field.schema);
  if (inner === '') return short(label);
  if (isLaw) return short(`${label} (${inner})`);
  // Not `rate: rate 2 Mbit/s`.
  return { text: inner.startsWith(`${label} `) ? inner : `${label}: ${inner}`, isLong: true };
}
