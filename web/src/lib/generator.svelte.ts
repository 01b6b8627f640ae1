// The generator's plan while it is edited, and what runs of it.

import { ApiError, call, errorsBelow, get, path, post, remove } from './api/client';
import type { Edited, PlanList, Test, Validation } from './api/shapes';
import { type LiveTest, tests } from './live/tests.svelte';
import { connectionsOf, emptyPlan, freshName, named, type PlanRow, rowsOf } from './plan';
import { preferences } from './preferences.svelte';
import { type Json, type JsonObject, put, same } from './schema/model';

const DRAFT = 'weir.draft';

interface Bound {
  live: LiveTest;
  id: number;
}

/** Flow names with the first test of the list that has them. */
function newest(list: readonly LiveTest[]): ReadonlyMap<string, Bound> {
  return new Map(list.flatMap((live) => live.named.map(([name, id]): [string, Bound] => [name, { live, id }])).reverse());
}

function draft(): JsonObject {
  try {
    const kept = JSON.parse(localStorage.getItem(DRAFT) ?? 'null') as JsonObject | null;
    if (kept?.['schema'] === 'weir.plan/1') return kept;
  } catch {
    // Nothing that can be read: a new one.
  }
  return emptyPlan();
}

class Generator {
  plan = $state.raw<JsonObject>(draft());
  /** Name under which it was loaded or saved, and what it was then. */
  name = $state('');
  etag = $state<string | undefined>();
  #saved = $state.raw<JsonObject>(emptyPlan());
  errors = $state.raw<Map<string, string>>(new Map());
  notes = $state.raw<string[]>([]);
  host = $state(preferences.host);
  /** Why the host was refused; holds until the next start, whatever is checked of the plan meanwhile. */
  hostError = $state('');
  keyName = $state('');
  /** A host of a lab that the tests start from, `LAB/HOST`; empty: the server's own. */
  from = $state('');
  starting = $state(false);
  #checking: ReturnType<typeof setTimeout> | undefined;
  #undo: JsonObject[] = $state.raw([]);

  rows = $derived(rowsOf(this.plan));
  dirty = $derived(!same(this.plan, this.#saved) && (this.name !== '' || connectionsOf(this.plan).length > 0));

  /** Flow names with the newest test that has them. */
  bindings = $derived(newest(tests.list));

  /** Tests that run now and have a flow of this plan. */
  running = $derived.by(() => {
    const names = new Set(this.rows.map((row) => row.name));
    return tests.list.filter((live) => !live.over && live.named.some(([name]) => names.has(name)));
  });

  /** The newest test with a flow of this plan, running or not. */
  latest = $derived.by(() => {
    const names = new Set(this.rows.slice(0, 2000).map((row) => row.name));
    return tests.list.find((live) => live.named.some(([name]) => names.has(name)));
  });

  change(plan: JsonObject): void {
    this.#undo = [...this.#undo.slice(-49), this.plan];
    this.#set(plan);
  }

  get canUndo(): boolean {
    return this.#undo.length > 0;
  }

  undo(): void {
    const last = this.#undo.at(-1);
    if (last === undefined) return;
    this.#undo = this.#undo.slice(0, -1);
    this.#set(last);
  }

  #set(plan: JsonObject): void {
    this.plan = plan;
    try {
      localStorage.setItem(DRAFT, JSON.stringify(plan));
    } catch {
      // Not kept over a reload.
    }
    clearTimeout(this.#checking);
    this.#checking = setTimeout(() => void this.check(), 300);
  }

  /** Asks the server what it thinks of the plan. */
  async check(): Promise<void> {
    if (connectionsOf(this.plan).length === 0) {
      this.errors = new Map();
      this.notes = [];
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
  }

  connection(index: number): JsonObject {
    return connectionsOf(this.plan)[index] ?? {};
  }

  edit(index: number, connection: JsonObject): void {
    this.change(put(this.plan, `/connection/${index}`, connection) as JsonObject);
  }

  /** Appends a connection under a name of its own; returns its index. */
  add(connection: JsonObject): number {
    const list = connectionsOf(this.plan);
    const name = freshName(this.plan, String(connection['name'] ?? connection['transport'] ?? 'tcp'));
    this.change({ ...this.plan, connection: [...list, { ...connection, name }] });
    return list.length;
  }

  removeAt(indices: ReadonlySet<number>): void {
    this.change({ ...this.plan, connection: connectionsOf(this.plan).filter((_, index) => !indices.has(index)) as Json[] });
  }

  /** The plan's flows that run and belong to `row`. */
  bound(row: PlanRow): Bound | undefined {
    return this.bindings.get(row.name);
  }

  isRunning(row: PlanRow): boolean {
    const bound = this.bound(row);
    if (bound === undefined || bound.live.over) return false;
    const state = bound.live.test.flow_states?.[row.name];
    return state === undefined || state === 'started';
  }

  /** Starts connections: all, or one of them as a test of its own. */
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
      const body = { host: this.host.trim(), plan: { ...rest, connection: chosen }, ...(this.keyName && { key_name: this.keyName }), ...(this.from && { from: this.from }) };
      tests.add(await post<Test>('/tests', body), rowsOf({ connection: chosen }).map((row) => row.name));
    } catch (error) {
      if (error instanceof ApiError) {
        const errors = error.errorsBelow('/plan');
        // A connection started alone is the first of its test.
        this.errors = only === undefined ? errors : new Map([...errors].map(([at, words]) => [at.replace(/^\/connection\/0/, `/connection/${only}`), words]));
        this.hostError = error.errorsBelow('/host').get('') ?? '';
      }
      throw error;
    } finally {
      this.starting = false;
    }
  }

  /** Starts one line: within its running test when it waits there, else alone. */
  async startRow(row: PlanRow): Promise<void> {
    const bound = this.bound(row);
    // What has ended is over for its test: it is started again as one of its own.
    if (bound !== undefined && !bound.live.over && bound.live.test.flow_states?.[row.name] === 'waiting') {
      tests.told(await post<Test>(path`/tests/${bound.live.test.id}/connections/${row.name}/start`));
      return;
    }
    await this.start(row.index);
  }

  /** Stops one line; the test with it when it has no other. */
  async stopRow(row: PlanRow): Promise<void> {
    const bound = this.bound(row);
    if (bound === undefined || bound.live.over) return;
    if (bound.live.named.length === 1) await tests.stop(bound.live.test.id);
    else tests.told(await post<Test>(path`/tests/${bound.live.test.id}/connections/${row.name}/stop`));
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.running.map((live) => tests.stop(live.test.id)));
  }

  fresh(): void {
    this.change(emptyPlan());
    this.name = '';
    this.etag = undefined;
    this.#saved = emptyPlan();
  }

  kept(): Promise<PlanList> {
    return get<PlanList>('/plans');
  }

  async load(name: string): Promise<void> {
    const { data, etag } = await call<JsonObject>('GET', path`/plans/${name}`);
    this.change(named(data));
    this.#saved = this.plan;
    this.name = name;
    this.etag = etag;
    if (typeof data['host'] === 'string' && data['host'] !== '') this.host = data['host'];
  }

  /** Keeps the plan; refused (412) when somebody else kept one meanwhile, unless it is just `over` theirs that it is to go. */
  async save(name: string, over?: Pick<Edited, 'etag'>): Promise<void> {
    const known = over === undefined ? (name === this.name ? this.etag : undefined) : (over.etag ?? undefined);
    const body = { ...named(this.plan), ...(this.host && { host: this.host.trim() }) };
    // A name that nothing is known of is to be free.
    const { data, etag } = await call<{ etag: string }>('PUT', path`/plans/${name}`, { body, ...(known === undefined ? { fresh: true } : { match: known }) });
    this.name = name;
    this.etag = etag ?? data?.etag;
    this.#saved = this.plan;
  }

  /** Removes a kept plan; refused (412) when it is no more what the list showed. */
  async forget(name: string, etag: string): Promise<void> {
    await remove(path`/plans/${name}`, etag);
  }

  /** Makes a plan of a test that somebody started elsewhere, so that it can be watched here. */
  adopt(live: LiveTest): void {
    const connection = live.test.flows.map((flow) => ({
      name: flow.name,
      transport: flow.transport,
      direction: flow.direction,
      ...(flow.payload_bytes > 0 && { payload: String(flow.payload_bytes) }),
      ...(flow.rate && { rate: flow.rate }),
    }));
    this.change({ ...emptyPlan(), connection });
    this.host = live.test.host || this.host;
    this.name = '';
    this.etag = undefined;
  }
}

export const generator = new Generator();
