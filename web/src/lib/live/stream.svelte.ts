// The one live stream: read, reconnected, and handed to whoever listens. Knows nothing of what it carries.

import { BASE, onUnauthorized } from '../api/client';
import type { AlarmEvent, Edited, Hello, SampleEvent, StateEvent, WarningEvent } from '../api/shapes';
import { backoff, EventParser } from './sse';

export interface Handlers {
  hello: (event: Hello, restarted: boolean) => void;
  state: (event: StateEvent) => void;
  sample: (event: SampleEvent) => void;
  warning: (event: WarningEvent) => void;
  alarm: (event: AlarmEvent) => void;
  edited: (event: Edited) => void;
}

export type Link = 'connecting' | 'live' | 'lost';

class Stream {
  link = $state<Link>('connecting');
  /** Seconds until the next attempt; 0 while one is being made. */
  retryAt = $state(0);
  /** The server was started anew while this page was open. */
  restarts = $state(0);
  #listeners = new Set<Partial<Handlers>>();
  #instance: string | undefined;
  #started = false;
  #wake: (() => void) | undefined;

  /** Listens until the returned function is called. */
  on(handlers: Partial<Handlers>): () => void {
    this.#listeners.add(handlers);
    return () => this.#listeners.delete(handlers);
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    void this.#run();
  }

  /** Tries at once. */
  retry(): void {
    this.#wake?.();
  }

  async #run(): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await fetch(`${BASE}/events?rate=10`, { headers: { Accept: 'text/event-stream' } });
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
        // Told by the banner; the reason is the network's.
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
      if (restarted) this.restarts += 1;
      for (const one of this.#listeners) one.hello?.(hello, restarted);
      return true;
    }
    for (const one of this.#listeners) {
      const handler = one[name as keyof Handlers] as ((event: unknown) => void) | undefined;
      handler?.(event);
    }
    return false;
  }
}

export const stream = new Stream();
