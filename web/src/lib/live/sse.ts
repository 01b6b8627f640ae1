// Server-sent events from a fetched body: EventSource hides the status of a refusal and chooses its own retry times.

export interface ServerEvent {
  event: string;
  data: string;
  id?: string;
}

/** Splits a stream of text into events (WHATWG HTML, section 9.2.6). Buffers at most one unfinished event. */
export class EventParser {
  #rest = '';
  #event = '';
  #data: string[] = [];
  #id: string | undefined;

  push(chunk: string): ServerEvent[] {
    const lines = (this.#rest + chunk).split(/\r?\n/);
    this.#rest = lines.pop() ?? '';
    const events: ServerEvent[] = [];
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) {
          const made: ServerEvent = { event: this.#event || 'message', data: this.#data.join('\n') };
          if (this.#id !== undefined) made.id = this.#id;
          events.push(made);
        }
        this.#event = '';
        this.#data = [];
        continue;
      }
      if (line.startsWith(':')) continue;
      const colon = line.indexOf(':');
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (name === 'event') this.#event = value;
      else if (name === 'data') this.#data.push(value);
      else if (name === 'id') this.#id = value;
    }
    return events;
  }
}

/** Delay before the next attempt, ms: 0.5 s doubling to 8 s, with a random spread of a fifth. */
export function backoff(attempt: number, draw: number): number {
  const base = Math.min(8000, 500 * 2 ** Math.min(attempt, 10));
  return base * (0.9 + 0.2 * draw);
}
