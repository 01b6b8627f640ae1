// The live event stream: reads it, reconnects, and dispatches events to listeners.

import { BASE, onUnauthorized } from '../api/client';
import type { AlarmEvent, DocumentChange, Hello, SampleEvent, StateEvent, WarningEvent } from '../api/shapes';
import { isOver } from '../states';
import { Ages } from './ages';
import { backoff, EventParser } from './sse';

export interface Handlers {
  hello: (event: Hello, restarted: boolean) => void;
  state: (event: StateEvent) => void;
  sample: (event: SampleEvent) => void;
  warning: (event: WarningEvent) => void;
  alarm: (event: AlarmEvent) => void;
  edited: (event: DocumentChange) => void;
}

export type Link = 'connecting' | 'live' | 'lost';

class Stream {
  link = $state<Link>('connecting');
  /** Seconds until the next attempt; 0 while one is being made. */
  retryAt = $state(0);
  /** Number of restarts of the server while this page was open. */
  restarts = $state(0);
  /** Age at arrival of the latest figures of the oldest object, s; 0 while all are recent. */
  behind = $state(0);
  #listeners = new Set<Partial<Handlers>>();
  /** Kinds and objects whose samples are requested, by requester. */
  #wanted = new Map<string, readonly string[]>([['tests', ['tests']]]);
  #abort: AbortController | undefined;
  #changing: ReturnType<typeof setTimeout> | undefined;
  readonly #ages = new Ages();
  #instance: string | undefined;
  #started = false;
  #wake: (() => void) | undefined;
  #left = false;

  /** Listens until the returned function is called. */
  on(handlers: Partial<Handlers>): () => void {
    this.#listeners.add(handlers);
    return () => this.#listeners.delete(handlers);
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    // A page in the browser's back/forward cache would keep its connection, of which a browser permits six per server.
    globalThis.addEventListener?.('pagehide', () => {
      this.#left = true;
      this.#abort?.abort();
    });
    globalThis.addEventListener?.('pageshow', () => {
      this.#left = false;
      this.#wake?.();
    });
    void this.#run();
  }

  /** Requests samples of objects (`emulators:ID`), replacing the previous request of `requester`, so that only visible objects are sampled. */
  want(requester: string, objects: readonly string[]): void {
    const before = this.#samples;
    if (objects.length > 0) this.#wanted.set(requester, objects);
    else this.#wanted.delete(requester);
    if (this.#samples === before) return;
    clearTimeout(this.#changing);
    this.#changing = setTimeout(() => this.#abort?.abort(), 50);
  }

  get #samples(): string {
    return [...new Set([...this.#wanted.values()].flat())].sort().join(',');
  }

  /** Retries immediately. */
  retry(): void {
    this.#wake?.();
  }

  async #run(): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      const abort = new AbortController();
      this.#abort = abort;
      try {
        const response = await fetch(`${BASE}/events?rate=10&samples=${encodeURIComponent(this.#samples)}`, { headers: { Accept: 'text/event-stream' }, signal: abort.signal });
        if (response.status === 401) onUnauthorized.ask();
        if (!response.ok || response.body === null) throw new Error(`${response.status}`);
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        const parser = new EventParser();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          for (const event of parser.push(value)) {
            if (this.#dispatch(event.event, event.data)) attempt = 0;
          }
        }
      } catch {
        // The banner shows that the connection is lost.
      }
      if (abort.signal.aborted) {
        // The subscription changed, or the page was left: not an error.
        attempt = -1;
        if (this.#left) await new Promise<void>((resolve) => (this.#wake = resolve));
        continue;
      }
      this.link = this.#instance === undefined && attempt === 0 ? 'connecting' : 'lost';
      const wait = backoff(attempt, Math.random());
      this.retryAt = Date.now() + wait;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.#wake = () => (clearTimeout(timer), resolve());
      });
      this.retryAt = 0;
    }
  }

  #dispatch(name: string, data: string): boolean {
    let event: unknown;
    try {
      event = JSON.parse(data);
    } catch {
      return false;
    }
    if (name === 'hello') {
      const hello = event as Hello;
      const restarted = this.#instance !== undefined && this.#instance !== hello.instance;
      this.#instance = hello.instance;
      this.link = 'live';
      this.#ages.begin(hello.at, Date.now());
      this.behind = 0;
      if (restarted) this.restarts += 1;
      for (const one of this.#listeners) one.hello?.(hello, restarted);
      return true;
    }
    if (name === 'sample') {
      const { kind, id, at } = event as SampleEvent;
      this.#ages.came(`${kind}:${id}`, at, Date.now());
      this.behind = this.#ages.oldest;
    }
    if (name === 'state') {
      const { kind, id, state } = event as StateEvent;
      if (isOver(state)) this.#ages.forget(`${kind}:${id}`);
      this.behind = this.#ages.oldest;
    }
    for (const one of this.#listeners) {
      const handler = one[name as keyof Handlers] as ((event: unknown) => void) | undefined;
      handler?.(event);
    }
    return false;
  }
}

export const stream = new Stream();
