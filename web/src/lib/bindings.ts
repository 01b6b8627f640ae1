// Binds the lines of a plan to the flows of tests. A line shows the test that was started from it, or from which it was
// adopted, even if other tests have connections of the same name. Pure.

import type { Json, JsonObject } from './schema/model';
import { connectionsOf, type PlanRow } from './plan';

/** The flows of one connection in the test that was last started from it. */
export interface Binding {
  /** Id of the test. */
  test: string;
  /** Number of the connection's first flow there; the others follow. */
  first: number;
  /** Number of its flows. */
  copies: number;
}

/** Stable ids of connections while they are edited, moved and removed, and their bindings to tests. */
export class Bindings {
  /** Id of each connection, in the order of the plan. */
  ids: number[] = [];
  #next = 1;
  #bound = new Map<number, Binding>();

  /** For a plan with this number of connections, none of which is bound. */
  constructor(connections = 0) {
    this.reset(connections);
  }

  #fresh(): number {
    return this.#next++;
  }

  /** Assigns ids for the next state of a plan: by position if the number of connections is unchanged, else by content. */
  follow(before: JsonObject, after: JsonObject): void {
    const [old, now] = [connectionsOf(before), connectionsOf(after)];
    if (old.length === now.length) return;
    const known = new Map(old.map((one, index) => [one, this.ids[index]]));
    this.ids = now.map((one) => known.get(one) ?? this.#fresh());
  }

  /** Assigns new ids for another plan, without bindings. */
  reset(connections: number): void {
    this.ids = Array.from({ length: connections }, () => this.#fresh());
  }

  /** Binds connections, in the order in which a test was started with them. */
  bind(test: string, started: readonly PlanRow[]): void {
    for (const [index, row] of started.entries()) {
      const id = this.ids[row.index];
      if (row.copy === 0 && id !== undefined) this.#bound.set(id, { test, first: index + 1, copies: row.copies });
    }
  }

  /** The test and the flow that a line shows. */
  of(row: PlanRow): { test: string; flow: number } | undefined {
    const binding = this.#bound.get(this.ids[row.index] ?? 0);
    return binding === undefined || row.copy >= binding.copies ? undefined : { test: binding.test, flow: binding.first + row.copy };
  }

  /** The state that survives a reload: each connection's name and binding, in the order of the plan. */
  toJson(plan: JsonObject): Json {
    return connectionsOf(plan).map((one, index) => ({ name: String(one['name'] ?? ''), ...this.#bound.get(this.ids[index] ?? 0) }));
  }

  /** The stored state, if it belongs to this plan. */
  static of(kept: unknown, plan: JsonObject): Bindings {
    const connections = connectionsOf(plan);
    const made = new Bindings(connections.length);
    const list = Array.isArray(kept) ? (kept as Partial<Binding & { name: string }>[]) : [];
    if (list.length !== connections.length || connections.some((one, index) => String(one['name'] ?? '') !== list[index]?.name)) return made;
    for (const [index, { test, first, copies }] of list.entries()) {
      if (typeof test === 'string' && typeof first === 'number' && typeof copies === 'number') made.#bound.set(made.ids[index] ?? 0, { test, first, copies });
    }
    return made;
  }
}
