// The generator's plan while it is edited, and its running tests.

import { Bindings } from './bindings';
import { ApiError, call, errorsBelow, get, path, post, remove } from './api/client';
import type { DocumentChange, PlanList, Test, Validation } from './api/shapes';
import { type LiveTest, tests } from './live/tests.svelte';
import { connectionsOf, emptyPlan, freshName, named, type PlanRow, rowsOf } from './plan';
import { preferences } from './preferences.svelte';
import { type Json, type JsonObject, pointer, put, same } from './schema/model';

const DRAFT = 'weir.draft';
/** The bindings of the draft's lines. */
const BOUND = 'weir.bound';
/** The stored plan that the draft comes from. */
const FILE = 'weir.file';

interface Bound {
  live: LiveTest;
  id: number;
}

function stored(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null');
  } catch {
    // Unreadable data is ignored.
    return null;
  }
}

function draft(): JsonObject {
  const kept = stored(DRAFT) as JsonObject | null;
  return kept?.['schema'] === 'weir.plan/1' ? kept : emptyPlan();
}

interface File {
  name: string;
  etag?: string | undefined;
  saved: JsonObject;
}

function file(): File {
  const kept = stored(FILE) as Partial<File> | null;
  return typeof kept?.name === 'string' && typeof kept.saved === 'object' ? { name: kept.name, etag: kept.etag, saved: kept.saved } : { name: '', saved: emptyPlan() };
}

class Generator {
  plan = $state.raw<JsonObject>(draft());
  /** Name under which the plan was loaded or saved, and its entity tag and content then. */
  #file = $state.raw(file());
  errors = $state.raw<Map<string, string>>(new Map());
  notes = $state.raw<string[]>([]);
  host = $state(preferences.host);
  /** Why the host was refused; shown until the next start, even if the plan is checked in between. */
  hostError = $state('');
  keyName = $state('');
  starting = $state(false);
  /** The server has yet to check the plan as it is. */
  checking = $state(false);
  #checking: ReturnType<typeof setTimeout> | undefined;
  /** Earlier plans, with the ids of their connections. */
  #undo: { plan: JsonObject; ids: number[] }[] = $state.raw([]);
  readonly #bindings = Bindings.of(stored(BOUND), this.plan);
  /** Changes when bindings change. */
  #bindingsMoved = $state(0);

  rows = $derived(rowsOf(this.plan));
  dirty = $derived(!same(this.plan, this.#file.saved) && (this.name !== '' || connectionsOf(this.plan).length > 0));

  #byId = $derived(new Map(tests.list.map((live) => [live.test.id, live])));

  /** Tests shown by lines of this plan, newest first. */
  shown = $derived.by(() => {
    void this.#bindingsMoved;
    const ids = new Set(this.rows.filter((row) => row.copy === 0).map((row) => this.#bindings.of(row)?.test));
    return tests.list.filter((live) => ids.has(live.test.id));
  });

  /** The running ones. */
  running = $derived(this.shown.filter((live) => !live.over));

  /** The newest one, running or not. */
  latest = $derived(this.shown[0]);

  get name(): string {
    return this.#file.name;
  }

  get etag(): string | undefined {
    return this.#file.etag;
  }

  #setFile(next: File): void {
    this.#file = next;
    this.#keep();
  }

  change(plan: JsonObject): void {
    this.#undo = [...this.#undo.slice(-49), { plan: this.plan, ids: this.#bindings.ids }];
    this.#bindings.follow(this.plan, plan);
    this.#set(plan);
  }

  get canUndo(): boolean {
    return this.#undo.length > 0;
  }

  undo(): void {
    const last = this.#undo.at(-1);
    if (last === undefined) return;
    this.#undo = this.#undo.slice(0, -1);
    this.#bindings.ids = last.ids;
    this.#set(last.plan);
  }

  #set(plan: JsonObject): void {
    this.plan = plan;
    this.#keep();
    clearTimeout(this.#checking);
    this.checking = true;
    this.#checking = setTimeout(() => void this.check(), 300);
  }

  /** Stores the plan and its bindings, so that they survive a reload. */
  #keep(): void {
    this.#bindingsMoved += 1;
    try {
      localStorage.setItem(DRAFT, JSON.stringify(this.plan));
      localStorage.setItem(FILE, JSON.stringify(this.#file));
      localStorage.setItem(BOUND, JSON.stringify(this.#bindings.toJson(this.plan)));
    } catch {
      // The browser has no storage: the plan is lost at a reload.
    }
  }

  /** Lets the server check the plan. */
  async check(): Promise<void> {
    if (connectionsOf(this.plan).length === 0) {
      this.errors = new Map();
      this.notes = [];
      this.checking = false;
      return;
    }
    const asked = this.plan;
    try {
      const told = await post<Validation>('/validate/plan', asked);
      if (asked !== this.plan) return;
      this.errors = errorsBelow(told.errors, '');
      this.notes = told.notes;
    } catch (error) {
      if (asked === this.plan && error instanceof ApiError && error.status === 422) this.errors = error.errorsBelow('');
    }
    if (asked === this.plan) this.checking = false;
  }

  connection(index: number): JsonObject {
    return connectionsOf(this.plan)[index] ?? {};
  }

  edit(index: number, connection: JsonObject): void {
    this.change(put(this.plan, `/connection/${index}`, connection) as JsonObject);
  }

  /** Sets a field of several connections, as one step of undo; `undefined` removes it. */
  editAll(indices: ReadonlySet<number>, field: string, value: Json | undefined): void {
    const connection = connectionsOf(this.plan).map((one, index) => (indices.has(index) ? put(one, pointer('', field), value) : one));
    this.change({ ...this.plan, connection });
  }

  /** Appends a connection under a unique name; returns its index. */
  add(connection: JsonObject): number {
    const list = connectionsOf(this.plan);
    const name = freshName(this.plan, String(connection['name'] ?? connection['transport'] ?? 'tcp'));
    this.change({ ...this.plan, connection: [...list, { ...connection, name }] });
    return list.length;
  }

  removeAt(indices: ReadonlySet<number>): void {
    this.change({ ...this.plan, connection: connectionsOf(this.plan).filter((_, index) => !indices.has(index)) as Json[] });
  }

  /** The test and the flow that `row` shows. */
  bound(row: PlanRow): Bound | undefined {
    void this.#bindingsMoved;
    const binding = this.#bindings.of(row);
    const live = binding && this.#byId.get(binding.test);
    return live === undefined || binding === undefined ? undefined : { live, id: binding.flow };
  }

  isRunning(row: PlanRow): boolean {
    const bound = this.bound(row);
    if (bound === undefined || bound.live.over) return false;
    const state = bound.live.state(bound.id);
    return state === undefined || state === 'started';
  }

  /** Starts connections: all, or only one, as a separate test. */
  async start(only?: number): Promise<void> {
    const plan = named(this.plan);
    if (!same(plan, this.plan)) this.#set(plan);
    const list = connectionsOf(plan);
    const chosen = only === undefined ? list : list.filter((_, index) => index === only).map((one) => ({ ...one, autostart: true }));
    const { host: _, ...rest } = plan;
    preferences.host = this.host;
    this.starting = true;
    this.hostError = '';
    try {
      const body = { host: this.host.trim(), plan: { ...rest, connection: chosen }, ...(this.keyName && { key_name: this.keyName }), ...(preferences.from && { from: preferences.from }) };
      const test = await post<Test>('/tests', body);
      const started = rowsOf({ connection: list }).filter((row) => only === undefined || row.index === only);
      tests.add(test, started.length);
      this.#bindings.bind(test.id, started);
      this.#keep();
    } catch (error) {
      if (error instanceof ApiError) {
        const errors = error.errorsBelow('/plan');
        // A single connection has index 0 in its test.
        this.errors = only === undefined ? errors : new Map([...errors].map(([at, words]) => [at.replace(/^\/connection\/0/, `/connection/${only}`), words]));
        this.hostError = error.errorsBelow('/host').get('') ?? '';
        error.isShown = this.errors.size > 0 || this.hostError !== '';
      }
      throw error;
    } finally {
      this.starting = false;
    }
  }

  /** Starts one line: in its running test if it is waiting there, else as a separate test. */
  async startRow(row: PlanRow): Promise<void> {
    const bound = this.bound(row);
    // A line that has ended can't be restarted in its test, so it is started as a separate test.
    if (bound !== undefined && !bound.live.over && bound.live.state(bound.id) === 'waiting') {
      tests.told(await post<Test>(path`/tests/${bound.live.test.id}/connections/${bound.live.flow(bound.id)?.name ?? ''}/start`));
      return;
    }
    await this.start(row.index);
  }

  /** Stops one line; if it is the only line of its test, stops the test. */
  async stopRow(row: PlanRow): Promise<void> {
    const bound = this.bound(row);
    if (bound === undefined || bound.live.over) return;
    const flow = bound.live.flow(bound.id);
    if (bound.live.flowCount === 1 || flow === undefined) await tests.stop(bound.live.test.id);
    else tests.told(await post<Test>(path`/tests/${bound.live.test.id}/connections/${flow.name}/stop`));
  }

  /** Changes the rate of running connections; the plan is not changed. */
  async setRate(rows: PlanRow[], rate: Json): Promise<void> {
    for (const row of rows.filter((row) => this.isRunning(row))) {
      const bound = this.bound(row);
      const flow = bound?.live.flow(bound.id);
      if (bound !== undefined && flow !== undefined) tests.told(await post<Test>(path`/tests/${bound.live.test.id}/connections/${flow.name}/rate`, { rate }));
    }
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.running.map((live) => tests.stop(live.test.id)));
  }

  /** Replaces the plan by one without bindings. */
  #replace(plan: JsonObject): void {
    this.change(plan);
    this.#bindings.reset(connectionsOf(plan).length);
    this.#keep();
  }

  fresh(): void {
    this.#replace(emptyPlan());
    this.#setFile({ name: '', saved: emptyPlan() });
  }

  kept(): Promise<PlanList> {
    return get<PlanList>('/plans');
  }

  async load(name: string): Promise<void> {
    const { data, etag } = await call<JsonObject>('GET', path`/plans/${name}`);
    this.#replace(named(data));
    this.#setFile({ name, etag, saved: this.plan });
    if (typeof data['host'] === 'string' && data['host'] !== '') this.host = data['host'];
  }

  /** Stores the plan; refused (412) if another client stored one in the meantime, unless `over` is set. */
  async save(name: string, over?: Pick<DocumentChange, 'etag'>): Promise<void> {
    const known = over === undefined ? (name === this.name ? this.etag : undefined) : (over.etag ?? undefined);
    const body = { ...named(this.plan), ...(this.host && { host: this.host.trim() }) };
    // Under a name without a known tag no plan may exist.
    const { data, etag } = await call<{ etag: string }>('PUT', path`/plans/${name}`, { body, ...(known === undefined ? { fresh: true } : { match: known }) });
    this.#setFile({ name, etag: etag ?? data?.etag, saved: this.plan });
  }

  /** The plan as the text of a file for `weir test --plan`. */
  async exported(): Promise<string> {
    const { toml, errors } = await post<Validation>('/validate/plan', { ...named(this.plan), ...(this.host && { host: this.host.trim() }) });
    if (typeof toml !== 'string') throw new Error(errors.map((one) => one.message).join('; '));
    return toml;
  }

  /** Replaces the plan by that of a file: TOML, or JSON. */
  async imported(text: string): Promise<void> {
    const { document, errors } = await post<Validation>('/validate/plan', text);
    if (document === undefined || document === null) throw new Error(errors.map((one) => [one.field, one.message].filter(Boolean).join(': ')).join('; '));
    const { host, ...plan } = document as JsonObject;
    this.#replace(named({ ...emptyPlan(), ...plan }));
    this.#setFile({ name: '', saved: emptyPlan() });
    if (typeof host === 'string' && host !== '') this.host = host;
  }

  /** Removes a stored plan; refused (412) if it has changed since it was listed. */
  async forget(name: string, etag: string): Promise<void> {
    await remove(path`/plans/${name}`, etag);
  }

  /** Makes a plan from a test that was started elsewhere, to watch it here. */
  adopt(live: LiveTest): void {
    const connection = live.test.flows.map((flow) => ({
      name: flow.name,
      transport: flow.transport,
      direction: flow.direction,
      ...(flow.payload_bytes > 0 && { payload: String(flow.payload_law ?? flow.payload_bytes) }),
      ...(flow.spacing_law && { spacing: flow.spacing_law }),
      // A spacing law that states times has a mean of its own, which replaces the rate.
      ...(flow.rate && !/\d(ns|us|ms|s)\b/.test(String(flow.spacing_law ?? '')) && { rate: flow.rate }),
    }));
    this.#replace({ ...emptyPlan(), connection });
    this.#bindings.bind(live.test.id, this.rows);
    this.#keep();
    this.host = live.test.host || this.host;
    this.#setFile({ name: '', saved: emptyPlan() });
  }
}

export const generator = new Generator();
