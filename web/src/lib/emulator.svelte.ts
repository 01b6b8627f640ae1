// One running emulator as the page works on it: what is in force, what is staged, and what it counts.

import { ApiError, byPlace, call, errorsBelow, get, path, post, remove } from './api/client';
import type { Alarm, Applied, Edited, EmulatorEntry, EmulatorList, Report, Validation } from './api/shapes';
import { stream } from './live/stream.svelte';
import { at, changes, type Json, type JsonObject, put, same } from './schema/model';

/** Packets and bits a second of one flow and direction, from two reports. */
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

type FlowReport = Report['impairment']['flows'][number];
export type DirectionReport = Report['directions'][number];

/** Staged changes put on another base: what was not touched here is theirs. */
export function rebased(base: JsonObject, staged: JsonObject, next: JsonObject): JsonObject {
  // Pointers into a list hold only while the list has the same members.
  const names = (one: JsonObject) => JSON.stringify(((one['flow'] ?? []) as JsonObject[]).map((flow) => flow['name']));
  if (names(base) !== names(staged) || names(base) !== names(next)) return same(base, staged) ? next : staged;
  return changes(base, staged).reduce<JsonObject>((made, change) => put(made, change.path, change.after) as JsonObject, next);
}

export class Board {
  readonly id: string;
  entry = $state.raw<EmulatorEntry | undefined>();
  applied = $state.raw<JsonObject>({ schema: 'weir.impair/1' });
  staged = $state.raw<JsonObject>({ schema: 'weir.impair/1' });
  errors = $state.raw<Map<string, string>>(new Map());
  report = $state.raw<Report | undefined>();
  alarms = $state.raw<Alarm[]>([]);
  /** Somebody else changed it while changes are staged here. */
  conflict = $state.raw<Edited | undefined>();
  applying = $state(false);
  gone = $state(false);
  paces = $state.raw<Map<string, Pace>>(new Map());
  cpu = $state.raw<Record<string, number | undefined>>({});
  #etag: string | undefined;
  #undo = $state.raw<JsonObject[]>([]);
  #before = $state.raw<JsonObject[]>([]);
  #checking: ReturnType<typeof setTimeout> | undefined;
  #ours = new Set<string>();
  #stop: () => void;

  changed = $derived(changes(this.applied, this.staged));

  constructor(id: string) {
    this.id = id;
    this.#stop = stream.on({
      hello: () => void this.load().catch(() => {}),
      sample: (event) => event.kind === 'emulators' && event.id === id && event.emulator && this.take(event.emulator),
      state: (event) => {
        if (event.kind === 'emulators' && event.id === id && (event.state === 'ended' || event.state === 'failed')) this.gone = true;
      },
      alarm: (event) => event.id === id && this.#alarm(event.alarm),
      edited: (event) => event.document === `emulators/${id}/configuration` && void this.#edited(event),
    });
  }

  close(): void {
    this.#stop();
    clearTimeout(this.#checking);
  }

  async load(): Promise<void> {
    const [entry, configuration, report] = await Promise.all([
      get<EmulatorEntry>(path`/emulators/${this.id}`),
      call<JsonObject>('GET', path`/emulators/${this.id}/configuration`),
      get<Report>(path`/emulators/${this.id}/counters`),
    ]);
    this.entry = entry;
    this.#rebase(configuration.data, configuration.etag);
    this.take(report);
    this.alarms = report.alarms ?? [];
  }

  #rebase(next: JsonObject, etag: string | undefined): void {
    this.staged = rebased(this.applied, this.staged, next);
    this.applied = next;
    this.#etag = etag;
  }

  take(report: Report): void {
    const last = this.report;
    if (last !== undefined && report.seconds > last.seconds) {
      const span = report.seconds - last.seconds;
      const before = new Map(last.impairment.flows.map((flow) => [`${flow.direction}/${flow.name}`, flow]));
      this.paces = new Map(
        report.impairment.flows.map((flow) => {
          const key = `${flow.direction}/${flow.name}`;
          const old = before.get(key)?.counters;
          const pace = (name: 'received_packets' | 'sent_packets' | 'received_bytes' | 'sent_bytes', scale = 1) => (old === undefined ? undefined : ((flow.counters[name] - old[name]) * scale) / span);
          return [key, { received: pace('received_packets'), sent: pace('sent_packets'), receivedBits: pace('received_bytes', 8), sentBits: pace('sent_bytes', 8) }];
        }),
      );
      this.cpu = Object.fromEntries(
        report.directions.map((one) => {
          const old = last.directions.find((other) => other.direction === one.direction);
          return [one.direction, old === undefined ? undefined : (one.link.cpu_nanoseconds - old.link.cpu_nanoseconds) / 1e9 / span];
        }),
      );
    }
    this.report = report;
    if (report.alarms !== undefined && report.alarms.length >= this.alarms.length) this.alarms = report.alarms;
  }

  #alarm(alarm: Alarm): void {
    const same = (one: Alarm) => one.kind === alarm.kind && one.object === alarm.object && one.at_seconds === alarm.at_seconds;
    this.alarms = this.alarms.some(same) ? this.alarms.map((one) => (same(one) ? alarm : one)) : [...this.alarms, alarm];
  }

  flowReport(name: string, way: Way): FlowReport | undefined {
    return this.report?.impairment.flows.find((flow) => flow.name === name && flow.direction === directionOf(way));
  }

  pace(name: string, way: Way): Pace | undefined {
    return this.paces.get(`${directionOf(way)}/${name}`);
  }

  // -- staging ---------------------------------------------------------------------------------------------------

  stage(next: JsonObject): void {
    this.#undo = [...this.#undo.slice(-99), this.staged];
    this.#set(next);
  }

  /** Sets the value at a pointer of the configuration; empty objects on the way are taken out again. */
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

  /** Takes back the last staged edit; with none, stages what was in force before the last apply. */
  undo(): void {
    const edit = this.#undo.at(-1);
    if (edit !== undefined) {
      this.#undo = this.#undo.slice(0, -1);
      this.#set(edit);
      return;
    }
    const before = this.#before.at(-1);
    if (before === undefined) return;
    this.#before = this.#before.slice(0, -1);
    this.#set(before);
  }

  discard(): void {
    this.#undo = [];
    this.#set(this.applied);
    this.conflict = undefined;
  }

  #set(next: JsonObject): void {
    this.staged = next;
    clearTimeout(this.#checking);
    this.#checking = setTimeout(() => void this.check(), 250);
  }

  async check(): Promise<void> {
    const asked = this.staged;
    try {
      const told = await post<Validation>('/validate/impairment', asked);
      if (asked === this.staged) this.errors = byPlace(errorsBelow(told.errors, ''), asked);
    } catch (error) {
      if (asked === this.staged && error instanceof ApiError && error.status === 422) this.errors = byPlace(error.errorsBelow(''), asked);
    }
  }

  /** Puts all staged changes into force together; refused (412) when somebody was first, unless `over` theirs. */
  async apply(over = false): Promise<void> {
    this.applying = true;
    const wanted = this.staged;
    try {
      if (over) this.#etag = (await call('GET', path`/emulators/${this.id}/configuration`)).etag;
      const { data, etag } = await call<Applied>('PUT', path`/emulators/${this.id}/configuration`, { body: wanted, match: this.#etag });
      this.#before = [...this.#before.slice(-19), this.applied];
      this.#undo = [];
      this.#etag = etag ?? data.etag;
      this.#ours.add(this.#etag);
      this.applied = wanted;
      this.conflict = undefined;
      this.errors = new Map();
    } catch (error) {
      if (error instanceof ApiError && error.status === 412) {
        this.conflict = error.changed ?? { document: '', by: 'somebody', at: '', etag: null };
        return;
      }
      if (error instanceof ApiError && error.status === 422) this.errors = byPlace(error.errorsBelow(''), wanted);
      throw error;
    } finally {
      this.applying = false;
    }
  }

  /** Theirs becomes the base; what was staged here stays staged on top of it. */
  async takeTheirs(): Promise<void> {
    const { data, etag } = await call<JsonObject>('GET', path`/emulators/${this.id}/configuration`);
    this.#rebase(data, etag);
    this.conflict = undefined;
    await this.check();
  }

  async #edited(event: Edited): Promise<void> {
    // Our own change is told before its answer has come.
    await new Promise((resolve) => setTimeout(resolve, 400));
    if (!event.etag || event.etag === this.#etag || this.#ours.has(event.etag)) return;
    if (same(this.applied, this.staged)) {
      await this.takeTheirs().catch(() => {});
      this.onTheirs?.(event);
    } else this.conflict = event;
  }

  /** Called when somebody else's change was taken over because nothing was staged here. */
  onTheirs: ((event: Edited) => void) | undefined;

  // -- running ---------------------------------------------------------------------------------------------------

  isStopped(name: string): boolean {
    return this.entry?.stopped_flows.includes(name) ?? false;
  }

  /** Applies a flow's laws or lets its packets pass untouched; without a name: all of them. */
  async run(on: boolean, name?: string): Promise<void> {
    const verb = on ? 'run' : 'stop';
    const told = await post<Applied>(name === undefined ? path`/emulators/${this.id}/${verb}` : path`/emulators/${this.id}/flows/${name}/${verb}`);
    this.#ours.add(told.etag);
    await this.load();
  }

  async log(name: string, on: boolean): Promise<void> {
    await call('PUT', path`/emulators/${this.id}/flows/${name}/log`, { body: { on } });
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
  }
}

export const emulators = new Emulators();
