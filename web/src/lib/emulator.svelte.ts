// A running emulator on the page: its configuration, staged changes and counters.

import { ApiError, byPlace, call, errorsBelow, get, path, post, remove } from './api/client';
import { type AlarmGroup, alarmGroups, dateOf, outcomeOf } from './alarms';
import type { Alarm, AlarmCount, AlarmThresholds, Applied, DocumentChange, EmulatorEntry, EmulatorHistory, EmulatorList, InheritedLaws, Report, Validation } from './api/shapes';
import { byFlow, flowKey, type FlowReport, Histories } from './history';
import type { Series } from './live/series';
import { stream } from './live/stream.svelte';
import { at, fieldOf, isObject, type Json, type JsonObject, lawsOf, put, resolve, same, type Schema } from './schema/model';
import { flowsByName, stagedChanges } from './staged';
import { isOver } from './states';

/** Packets and bits per second of one flow and direction, from two reports. */
export interface Pace {
  received: number | undefined;
  sent: number | undefined;
  receivedBits: number | undefined;
  sentBits: number | undefined;
}

export type Way = 'a_to_b' | 'b_to_a';
export const WAYS: Way[] = ['a_to_b', 'b_to_a'];
/** A direction's name in reports. */
export const directionOf = (way: Way) => (way === 'a_to_b' ? 'forward' : 'reverse');

export type DirectionReport = Report['directions'][number];

/**
 * Rebases staged changes: a part that we did not change is theirs, a part that both changed is ours. Lists of named members
 * are merged by name. The laws of a slot exclude each other, so they are all taken from one side.
 */
export function rebased(base: JsonObject, staged: JsonObject, next: JsonObject, root: Schema = {}): JsonObject {
  return merged(base, staged, next, root, root) as JsonObject;
}

type Part = Json | undefined;

/** The names of a list's members; absent unless it is a list of members with distinct names. */
function namesOf(list: Part): string[] | undefined {
  if (list === undefined) return [];
  if (!Array.isArray(list)) return undefined;
  const names = list.map((one) => (isObject(one) && typeof one['name'] === 'string' ? one['name'] : ''));
  return names.includes('') || new Set(names).size < names.length ? undefined : names;
}

function merged(base: Part, mine: Part, theirs: Part, root: Schema, schema: Schema): Part {
  if (same(base, mine) || same(mine, theirs)) return theirs;
  if (same(base, theirs)) return mine;
  if (isObject(mine) && isObject(theirs) && (base === undefined || isObject(base))) return objects(base ?? {}, mine, theirs, root, schema);
  // An empty list is omitted from the document.
  if (!Array.isArray(mine) && !Array.isArray(theirs)) return mine;
  const [before, ours, others] = [namesOf(base), namesOf(mine), namesOf(theirs)];
  if (before === undefined || ours === undefined || others === undefined) return mine;
  const made = lists([before, base], [ours, mine], [others, theirs], root, schema);
  return made.length > 0 ? made : undefined;
}

function objects(base: JsonObject, mine: JsonObject, theirs: JsonObject, root: Schema, schema: Schema): JsonObject {
  const laws = lawsOf(schema);
  const set = (one: JsonObject) => laws.filter((law) => one[law] !== undefined && one[law] !== null);
  const chosen = laws.some((law) => !same(base[law], mine[law])) ? set(mine) : set(theirs);
  const made: JsonObject = {};
  for (const key of new Set([...Object.keys(theirs), ...Object.keys(mine)])) {
    if (laws.includes(key) && !chosen.includes(key)) continue;
    const value = merged(base[key], mine[key], theirs[key], root, schema.properties?.[key] === undefined ? {} : fieldOf(root, schema, key).schema);
    if (value !== undefined) made[key] = value;
  }
  return made;
}

type Named = [string[], Part];

function lists([before, base]: Named, [ours, mine]: Named, [others, theirs]: Named, root: Schema, schema: Schema): Json[] {
  const member = (list: Part, name: string): Part => (Array.isArray(list) ? list.find((one) => isObject(one) && one['name'] === name) : undefined);
  const common = (names: string[], other: string[]) => names.filter((name) => other.includes(name));
  // The side that moved members determines the order; new members of the other side follow their predecessors.
  const moved = !same(common(ours, before), common(before, ours));
  const [first, second] = moved ? [ours, others] : [others, ours];
  const order = [...first];
  for (const [at, name] of second.entries()) {
    if (order.includes(name)) continue;
    const ahead = second.slice(0, at).findLast((one) => order.includes(one));
    order.splice(ahead === undefined ? 0 : order.indexOf(ahead) + 1, 0, name);
  }
  const items = schema.items === undefined ? {} : resolve(root, schema.items);
  return order.flatMap((name) => merged(member(base, name), member(mine, name), member(theirs, name), root, items) ?? []);
}

/** A change with both states, so that it can be undone after later changes. */
interface Step {
  from: JsonObject;
  to: JsonObject;
}

/** Edits that are not applied, with the document that they start from. */
interface Draft {
  base: JsonObject;
  staged: JsonObject;
}

/** What is stored until the tab is closed; absent if there is nothing. */
function stored<T>(key: string): T | undefined {
  try {
    const text = sessionStorage.getItem(key);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}

function store(key: string, value: unknown): void {
  try {
    if (value === undefined) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    // The browser has no storage: the value lasts until the page is closed.
  }
}

const NO_ERRORS: ReadonlyMap<string, string> = new Map();
const NO_PACES: ReadonlyMap<string, Pace> = new Map();

type Passed = Record<'received_packets' | 'sent_packets' | 'received_bytes' | 'sent_bytes', number>;

/** What a report has counted, by direction, and by direction and flow: a packet that passes several hops counts in a flow of each. */
const passedIn = (report: Report): ReadonlyMap<string, Passed> =>
  new Map<string, Passed>([...report.directions.map((one) => [one.direction, one] as const), ...report.impairment.flows.map((flow) => [`${flow.direction}/${flow.name}`, flow.counters] as const)]);

/** Packets and bits received and sent per second between two reports, `span` seconds apart. */
function pacesOf(last: Report, report: Report, span: number): ReadonlyMap<string, Pace> {
  const before = passedIn(last);
  return new Map(
    [...passedIn(report)].map(([key, counted]) => {
      const old = before.get(key);
      const pace = (name: keyof Passed, scale = 1) => (old === undefined ? undefined : ((counted[name] - old[name]) * scale) / span);
      return [key, { received: pace('received_packets'), sent: pace('sent_packets'), receivedBits: pace('received_bytes', 8), sentBits: pace('sent_bytes', 8) }];
    }),
  );
}

export class Board {
  readonly id: string;
  entry = $state.raw<EmulatorEntry | undefined>();
  applied = $state.raw<JsonObject>({ schema: 'weir.impair/1' });
  staged = $state.raw<JsonObject>({ schema: 'weir.impair/1' });
  errors: ReadonlyMap<string, string> = $state.raw(NO_ERRORS);
  report = $state.raw<Report | undefined>();
  alarms = $state.raw<Alarm[]>([]);
  /** Another client changed it while changes are staged here. */
  conflict = $state.raw<DocumentChange | undefined>();
  applying = $state(false);
  /** Number of commands sent from here; the state is read again after each. */
  orders = $state(0);
  gone = $state(false);
  paces: ReadonlyMap<string, Pace> = $state.raw(NO_PACES);
  /** Laws that flows of the staged configuration have from a preset or an aggregate. */
  inherited = $state.raw<InheritedLaws[]>([]);
  /** Counts the points of the histories. */
  points = $state(0);
  /** The flow whose card is open. */
  watched: string | undefined;
  #histories = new Histories();
  /** Date of the emulator's start, ms, by the server's clock. */
  #started: number | undefined;
  cpu = $state.raw<Record<string, number | undefined>>({});
  #etag: string | undefined;
  /** The schema of `weir.impair/1`, once loaded: it says which laws exclude each other. */
  schema = $state.raw<Schema>({});
  /** Staged edits, and applied changes with the states before and after. */
  #undo = $state.raw<Step[]>([]);
  #before = $state.raw<Step[]>([]);
  #checking: ReturnType<typeof setTimeout> | undefined;
  #stop: () => void;

  changed = $derived(stagedChanges(this.applied, this.staged, this.schema));

  /** Alarms by kind and object. */
  alarmGroups = $derived(alarmGroups(this.alarms));

  constructor(id: string) {
    this.id = id;
    stream.want(`board ${id}`, [`emulators:${id}`]);
    this.#stop = stream.on({
      hello: () => void this.load().catch(() => {}),
      sample: (event) => event.kind === 'emulators' && event.id === id && event.emulator && this.take(event.emulator, event.at),
      state: (event) => {
        if (event.kind === 'emulators' && event.id === id && isOver(event.state)) this.gone = true;
      },
      alarm: (event) => event.id === id && this.#alarm(event.alarm),
      edited: (event) => event.document === `emulators/${id}/configuration` && void this.#edited(event).catch(() => {}),
    });
  }

  close(): void {
    this.#stop();
    stream.want(`board ${this.id}`, []);
    clearTimeout(this.#checking);
  }

  async load(): Promise<void> {
    const isFirst = this.entry === undefined;
    const [entry, configuration, report, history] = await Promise.all([
      get<EmulatorEntry>(path`/emulators/${this.id}`),
      call<JsonObject>('GET', path`/emulators/${this.id}/configuration`),
      get<Report>(path`/emulators/${this.id}/counters`),
      // Without it the curves start now.
      isFirst ? get<EmulatorHistory>(path`/emulators/${this.id}/history`).catch(() => undefined) : undefined,
    ]);
    this.entry = entry;
    if (history?.reports !== undefined) this.#histories.restore(history, this.watched);
    this.#seen(configuration.data, configuration.etag);
    this.take(report);
    await this.check();
  }

  /** Handles the server's document: shows it if nothing is staged here, else reports a conflict. Returns whether it was shown. */
  #seen(next: JsonObject, etag: string | undefined, by?: DocumentChange): boolean {
    if (this.#etag !== undefined && etag === this.#etag) {
      this.conflict = undefined;
      return false;
    }
    if (this.#etag !== undefined && !same(this.applied, this.staged)) {
      this.conflict = by ?? { document: `emulators/${this.id}/configuration`, by: 'Another client', at: '', etag: etag ?? null };
      return false;
    }
    this.#rebase(next, etag);
    return true;
  }

  #rebase(next: JsonObject, etag: string | undefined): void {
    const draft = this.#etag === undefined ? stored<Draft>(`weir.staged.${this.id}`) : undefined;
    this.staged = rebased(draft?.base ?? this.applied, draft?.staged ?? this.staged, next, this.schema);
    this.applied = next;
    this.#etag = etag;
    this.#store();
  }

  #store(): void {
    store(`weir.staged.${this.id}`, same(this.applied, this.staged) ? undefined : { base: this.applied, staged: this.staged });
  }

  /** Takes a report that the server made at a date, RFC 3339; now if absent. */
  take(report: Report, date?: string): void {
    this.#started = (date === undefined ? Date.now() : Date.parse(date)) - report.seconds * 1000;
    if (this.#histories.add(report, this.watched)) this.points += 1;
    const last = this.report;
    if (last !== undefined && report.seconds > last.seconds) {
      const span = report.seconds - last.seconds;
      this.paces = pacesOf(last, report, span);
      this.cpu = Object.fromEntries(
        report.directions.map((one) => {
          const old = last.directions.find((other) => other.direction === one.direction);
          return [one.direction, old === undefined ? undefined : (one.link.cpu_nanoseconds - old.link.cpu_nanoseconds) / 1e9 / span];
        }),
      );
    }
    this.report = report;
    this.alarms = report.alarms ?? [];
  }

  #alarm(alarm: Alarm): void {
    const same = (one: Alarm) => one.kind === alarm.kind && one.object === alarm.object && one.at_seconds === alarm.at_seconds;
    this.alarms = this.alarms.some(same) ? this.alarms.map((one) => (same(one) ? alarm : one)) : [...this.alarms, alarm];
  }

  /** Marks a group's alarms as seen, or removes those that have passed, for all clients. */
  /** Returns what it changed, as a sentence. */
  async changeAlarms(verb: 'acknowledge' | 'clear', group: AlarmGroup): Promise<string> {
    const { kind, object } = group;
    const { alarms } = await post<AlarmCount>(path`/emulators/${this.id}/alarms/${verb}`, { kind, object });
    this.take(await get<Report>(path`/emulators/${this.id}/counters`));
    return outcomeOf(verb, group, alarms);
  }

  async setThresholds(thresholds: AlarmThresholds): Promise<void> {
    await call('PUT', path`/emulators/${this.id}/alarms/thresholds`, { body: thresholds });
    this.take(await get<Report>(path`/emulators/${this.id}/counters`));
  }

  /** Address of a flow's card, or of a stage in it, by name. */
  link(name?: string, way?: Way, stage?: string): string {
    const steps = [this.id, name, way, stage].filter((step) => step !== undefined);
    return `/emulator/${steps.map(encodeURIComponent).join('/')}`;
  }

  /** Date of a time of the emulator's clock, RFC 3339. */
  dateOf(seconds: number): string | undefined {
    return this.#started === undefined ? undefined : dateOf(this.#started + seconds * 1000);
  }

  /** Figures of a flow and direction over time; absent before the second report. */
  history(name: string, way: Way): Series | undefined {
    return this.#histories.of(flowKey({ name, direction: directionOf(way) }));
  }

  #reports = $derived(byFlow(this.report));

  flowReport(name: string, way: Way): FlowReport | undefined {
    return this.#reports.get(flowKey({ name, direction: directionOf(way) }));
  }

  #inForce = $derived(flowsByName(this.applied));

  /** A flow in force; absent if it is staged only. */
  inForce(name: string): JsonObject | undefined {
    return this.#inForce.get(name);
  }

  /** Staged laws of a flow that come from a preset or an aggregate. */
  inheritedOf(name: string, way: Way): readonly InheritedLaws[] {
    return this.inherited.filter((one) => one.flow === name && one.direction === directionOf(way));
  }

  pace(name: string, way: Way): Pace | undefined {
    return this.paces.get(`${directionOf(way)}/${name}`);
  }

  // -- staging ---------------------------------------------------------------------------------------------------

  stage(next: JsonObject): void {
    this.#undo = [...this.#undo.slice(-99), { from: this.staged, to: next }];
    this.#set(next);
  }

  /** Stages the configuration of a file's text, TOML or JSON; returns what is wrong with it. */
  async open(text: string): Promise<Validation['errors']> {
    const read = (file: string) => post<Validation>('/validate/impairment', file);
    const [file, inForce] = await Promise.all([read(text), read(JSON.stringify(this.applied))]);
    if (!file.document) return file.errors;
    // The server states defaults; what only differs in that stays as it is. A file without a seed keeps the one in force.
    const base = (inForce.document ?? this.applied) as JsonObject;
    const kept: JsonObject = base['seed'] === undefined ? {} : { seed: base['seed'] };
    this.stage(rebased(base, { ...kept, ...(file.document as JsonObject) }, this.applied, this.schema));
    return [];
  }

  /** Sets the value at a pointer of the configuration; empty objects on the path are removed. */
  change(where: string, next: Json | undefined): void {
    let made = put(this.staged, where, next) as JsonObject;
    for (let up = where.replace(/\/[^/]*$/, ''); up !== ''; up = up.replace(/\/[^/]*$/, '')) {
      const here = at(made, up);
      if (here === null || typeof here !== 'object' || Array.isArray(here) || Object.keys(here).length > 0) break;
      made = put(made, up, undefined) as JsonObject;
    }
    this.stage(made);
  }

  get canUndo(): boolean {
    return this.#undo.length > 0 || this.#before.length > 0;
  }

  /** Undoes the last staged edit; without one, stages the reversal of the last apply. Later changes remain. */
  undo(): void {
    const edit = this.#undo.at(-1);
    if (edit === undefined) return this.undoApply();
    this.#undo = this.#undo.slice(0, -1);
    this.#back(edit);
  }

  /** Stages the reversal of the last apply. */
  undoApply(): void {
    const applied = this.#before.at(-1);
    if (applied === undefined) return;
    this.#before = this.#before.slice(0, -1);
    this.#back(applied);
  }

  #back(step: Step): void {
    this.#set(rebased(step.to, step.from, this.staged, this.schema));
  }

  discard(): void {
    this.#undo = [];
    this.#set(this.applied);
    this.conflict = undefined;
  }

  #set(next: JsonObject): void {
    this.staged = next;
    this.#store();
    clearTimeout(this.#checking);
    this.#checking = setTimeout(() => void this.check(), 250);
  }

  async check(): Promise<void> {
    const asked = this.staged;
    try {
      const told = await post<Validation>('/validate/impairment', asked);
      if (asked !== this.staged) return;
      this.errors = byPlace(errorsBelow(told.errors, ''), asked);
      if (told.valid) this.inherited = told.inherited ?? [];
    } catch (error) {
      if (asked === this.staged && error instanceof ApiError && error.status === 422) this.errors = byPlace(error.errorsBelow(''), asked);
    }
  }

  /** Applies all staged changes together; refused (412) if another client changed the document first, unless `over` is set. */
  async apply(over = false): Promise<void> {
    this.applying = true;
    const wanted = this.staged;
    try {
      if (over) this.#etag = (await call('GET', path`/emulators/${this.id}/configuration`)).etag;
      const { data, etag } = await call<Applied>('PUT', path`/emulators/${this.id}/configuration`, { body: wanted, match: this.#etag });
      this.#before = [...this.#before.slice(-19), { from: this.applied, to: wanted }];
      this.#undo = [];
      this.#etag = etag ?? data.etag;
      this.applied = wanted;
      this.#store();
      this.conflict = undefined;
      this.errors = NO_ERRORS;
    } catch (error) {
      if (error instanceof ApiError && error.status === 412) {
        this.conflict = error.changed ?? { document: '', by: 'another client', at: '', etag: null };
        return;
      }
      if (error instanceof ApiError && error.status === 422) this.errors = byPlace(error.errorsBelow(''), wanted);
      throw error;
    } finally {
      this.applying = false;
    }
  }

  /** Uses the other client's document as the base; changes staged here remain staged on top of it. */
  async takeTheirs(): Promise<void> {
    const { data, etag } = await call<JsonObject>('GET', path`/emulators/${this.id}/configuration`);
    this.#rebase(data, etag);
    this.conflict = undefined;
    await this.check();
  }

  async #edited(event: DocumentChange): Promise<void> {
    // The event of our own change arrives before its response.
    do await new Promise((resolve) => setTimeout(resolve, 400));
    while (this.applying);
    if (!event.etag || event.etag === this.#etag) return;
    const { data, etag } = await call<JsonObject>('GET', path`/emulators/${this.id}/configuration`);
    if (this.#seen(data, etag, event)) this.onTheirs?.(event);
  }

  /** Called when another client's change was accepted because nothing was staged here. */
  onTheirs: ((event: DocumentChange) => void) | undefined;

  // -- running ---------------------------------------------------------------------------------------------------

  isStopped(name: string): boolean {
    return this.entry?.stopped_flows.includes(name) ?? false;
  }

  /** Applies a flow's laws or forwards its packets unchanged; without a name: all of them. */
  async run(on: boolean, name?: string): Promise<void> {
    const verb = on ? 'run' : 'stop';
    await post<Applied>(name === undefined ? path`/emulators/${this.id}/${verb}` : path`/emulators/${this.id}/flows/${name}/${verb}`);
    this.orders += 1;
    await this.load();
  }

  /** Meets the condition of a flow's triggers that wait for a command, in both directions. */
  async trigger(name: string): Promise<void> {
    await post(path`/emulators/${this.id}/flows/${name}/trigger`);
    this.orders += 1;
    this.take(await get<Report>(path`/emulators/${this.id}/counters`));
  }

  /** Starts a new counting period, for a flow or all: requested and realised values are compared from now on. */
  async reset(name?: string): Promise<void> {
    await call('POST', name === undefined ? path`/emulators/${this.id}/reset` : path`/emulators/${this.id}/flows/${name}/reset`);
    this.orders += 1;
    this.take(await get<Report>(path`/emulators/${this.id}/counters`));
  }

  /** Why no flow can be traced; absent if flows can be traced. */
  get untraceable(): string | undefined {
    if (this.gone) return 'The emulator has ended';
    if (this.entry === undefined) return 'Not loaded yet';
    return this.entry.packet_trace === 'none' ? 'This emulator was started without a packet trace' : undefined;
  }

  /** Whether a flow's verdicts are written to the packet trace, as reported by the emulator. */
  isTraced(name: string): boolean {
    return this.report?.impairment.flows.some((flow) => flow.name === name && flow.traced === true) ?? false;
  }

  async trace(name: string, on: boolean): Promise<void> {
    await call('PUT', path`/emulators/${this.id}/flows/${name}/trace`, { body: { on } });
    this.orders += 1;
    this.take(await get<Report>(path`/emulators/${this.id}/counters`));
  }

  async end(): Promise<void> {
    await remove(path`/emulators/${this.id}`);
    this.gone = true;
  }
}

class Emulators {
  list = $state.raw<EmulatorList | undefined>();

  constructor() {
    stream.on({
      hello: () => void this.refresh().catch(() => {}),
      state: (event) => event.kind === 'emulators' && void this.refresh().catch(() => {}),
    });
  }

  async refresh(): Promise<void> {
    this.list = await get<EmulatorList>('/emulators');
    // Alarms are part of samples. Reading them restarts an emulator's keepalive timeout, which only its own view should do.
    const free = this.list.emulators.filter((one) => !one.keepalive_timeout_seconds);
    stream.want('emulators', free.map((one) => `emulators:${one.id}`));
  }
}

export const emulators = new Emulators();
