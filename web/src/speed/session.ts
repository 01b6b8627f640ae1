// One speed test against a server: the page's side of PROTOCOL.md. No rendering.

import { type Latencies, type Mark, type Result, thinned, throughput } from './figures';

export type Phase = 'idle' | 'download' | 'upload';

export interface Progress {
  phase: Phase;
  /** Marks of the running phase so far. */
  marks: readonly Mark[];
  latency: Latencies;
  /** Part of the test that is over, 0 to 1, by its expected time. */
  fraction: number;
}

export class SpeedError extends Error {}
/** The visitor stopped the test. */
export class Cancelled extends SpeedError {}

interface Hello {
  session: string;
  streams: number;
  phase_seconds: number;
  idle_seconds: number;
  ping_seconds: number;
}

type Message = { type: string } & Record<string, unknown>;

const SUBPROTOCOL = 'weir.speed.v1';
const MOST_BUFFERED = 1 << 20;
const CHUNK = 1 << 16;
const MOST_PINGS = 200;
/** A phase is over when no data has arrived for this time, or after `MOST_DRAIN_SECONDS`. */
const SILENCE_SECONDS = 0.3;
/** Longest time between two marks of a download, s. */
const LONGEST_MARK_SECONDS = 0.2;
const MOST_DRAIN_SECONDS = 3;

const sleep = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));

export class SpeedSession {
  readonly #base: string;
  readonly #onprogress: (progress: Progress) => void;
  #control: WebSocket | undefined;
  #data: WebSocket[] = [];
  #waiting = new Map<string, (message: Message) => void>();
  #failure: ((error: Error) => void) | undefined;
  #pings = new Map<number, { at: number; phase: Phase }>();
  #last = 0;
  #phase: Phase = 'idle';
  #began = 0;
  /** When the test started and how long it takes, ms. */
  #started = 0;
  #takes = Number.POSITIVE_INFINITY;
  #download: Mark[] = [];
  #bytes = 0;
  #marks: Mark[] = [];
  #latency: Latencies = { idle: [], download: [], upload: [] };
  #sending = false;
  /** What still runs after the end, such as a phase of a cancelled test, sends and shows nothing. */
  #isClosed = false;
  /** Whether the phase is being measured: neither before its start nor while queued data still arrives. */
  #measuring = false;
  #heard = 0;

  constructor(base: string, onprogress: (progress: Progress) => void) {
    this.#base = base;
    this.#onprogress = onprogress;
  }

  /** Runs all phases; resolves with the result and, if stored, its link. */
  async run(): Promise<{ result: Result; url: string | undefined; note: string | undefined }> {
    try {
      return await Promise.race([this.#play(), new Promise<never>((_, reject) => (this.#failure = reject))]);
    } finally {
      this.close();
    }
  }

  /** Ends the test without a result. */
  cancel(): void {
    this.#failure?.(new Cancelled('cancelled'));
  }

  close(): void {
    this.#isClosed = true;
    this.#sending = false;
    for (const socket of [this.#control, ...this.#data]) socket?.close();
  }

  async #play() {
    const hello = await this.#hello();
    this.#data = await Promise.all(Array.from({ length: hello.streams }, () => this.#join(hello.session)));
    this.#started = performance.now();
    this.#takes = 1000 * (hello.idle_seconds + 2 * (hello.phase_seconds + SILENCE_SECONDS));
    const pinging = setInterval(() => this.#ping(), hello.ping_seconds * 1000);
    try {
      // Idle round trips are measured before the first phase: between phases the path may still have queued data.
      this.#measuring = true;
      await sleep(hello.idle_seconds);
      this.#measuring = false;
      const download = await this.#measure('download', hello);
      const upload = await this.#measure('upload', hello);
      this.#unanswered();
      this.#tell();
      const result: Result = { ...(download && { download }), ...(upload && { upload }), latency: this.#latency };
      this.#send({ type: 'result', ...result, download_marks: thinned(this.#download) });
      const answer = await this.#await('kept', 'not_kept');
      const kept = answer.type === 'kept';
      return { result, url: kept ? String(answer['url']) : undefined, note: kept ? undefined : String(answer['text'] ?? '') };
    } finally {
      clearInterval(pinging);
    }
  }

  #hello(): Promise<Hello> {
    const control = new WebSocket(`${this.#base}/speed/v1`, SUBPROTOCOL);
    this.#control = control;
    const first = this.#await('hello', 'busy');
    control.onmessage = (event) => this.#take(JSON.parse(String(event.data)) as Message);
    control.onerror = () => this.#failure?.(new SpeedError('the server does not answer'));
    control.onclose = () => this.#failure?.(new SpeedError('the server ended the connection'));
    return first.then((message) => {
      if (message.type === 'busy') throw new SpeedError(`${String(message['text'] ?? 'too many concurrent tests')} Try again in ${Number(message['retry_after_seconds'] ?? 30)} s.`);
      return message as unknown as Hello;
    });
  }

  #join(session: string): Promise<WebSocket> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(`${this.#base}/speed/v1?session=${encodeURIComponent(session)}`, SUBPROTOCOL);
      socket.binaryType = 'arraybuffer';
      socket.onopen = () => resolve(socket);
      socket.onerror = () => reject(new SpeedError('a data connection was refused'));
      socket.onmessage = (event) => {
        this.#heard = performance.now();
        if (!this.#measuring || this.#phase !== 'download' || !(event.data instanceof ArrayBuffer)) return;
        this.#bytes += event.data.byteLength;
        this.#mark(this.#bytes, this.#elapsed());
      };
    });
  }

  async #measure(phase: 'download' | 'upload', hello: Hello) {
    this.#phase = phase;
    this.#bytes = 0;
    this.#marks = [];
    this.#send({ type: 'start', phase });
    await this.#await('started');
    this.#began = performance.now();
    this.#measuring = true;
    if (phase === 'upload') this.#feed();
    // Marks are made when data arrives. Without data, make them by time.
    const ticking = phase === 'download' ? setInterval(() => this.#mark(this.#bytes, this.#elapsed()), LONGEST_MARK_SECONDS * 1000) : undefined;
    const over = this.#await('stopped');
    await Promise.race([sleep(hello.phase_seconds), over]);
    clearInterval(ticking);
    this.#sending = false;
    this.#measuring = false;
    const measured = [...this.#marks];
    if (phase === 'download') measured.push({ bytes: this.#bytes, seconds: this.#elapsed() });
    if (phase === 'download') this.#download = measured;
    this.#send({ type: 'stop' });
    const stopped = await over;
    // The server received the upload, so its final count is used.
    if (phase === 'upload') measured.push({ bytes: Number(stopped['bytes']), seconds: Number(stopped['seconds']) });
    await this.#drain();
    return throughput(measured);
  }

  /** Time of the running phase, s. */
  #elapsed(): number {
    return (performance.now() - this.#began) / 1000;
  }

  /** Waits until the queues of the path have no data of the previous phase. */
  async #drain(): Promise<void> {
    const began = performance.now();
    this.#heard = began;
    const since = (moment: number) => (performance.now() - moment) / 1000;
    while (since(this.#heard) < SILENCE_SECONDS && since(began) < MOST_DRAIN_SECONDS) await sleep(0.05);
  }

  /** Keeps the buffer of every data socket filled up to `MOST_BUFFERED`. */
  #feed(): void {
    this.#sending = true;
    const chunk = new Uint8Array(CHUNK);
    for (let at = 0; at < CHUNK; at += 65_536) crypto.getRandomValues(chunk.subarray(at, at + 65_536));
    const turn = () => {
      if (!this.#sending) return;
      for (const socket of this.#data) while (socket.readyState === WebSocket.OPEN && socket.bufferedAmount < MOST_BUFFERED) socket.send(chunk);
      setTimeout(turn, 4);
    };
    turn();
  }

  #mark(bytes: number, seconds: number): void {
    const last = this.#marks.at(-1);
    if (last !== undefined && seconds - last.seconds < 0.05) return;
    this.#marks.push({ bytes, seconds });
    this.#tell();
  }

  #tell(): void {
    if (this.#isClosed) return;
    const fraction = Math.min(1, (performance.now() - this.#started) / this.#takes);
    this.#onprogress({ phase: this.#phase, marks: this.#marks, latency: this.#latency, fraction });
  }

  #ping(): void {
    // Send pings even if many are unanswered: otherwise the worst moments would not be measured.
    const asked = this.#latency[this.#phase].length + [...this.#pings.values()].filter((one) => one.phase === this.#phase).length;
    if (!this.#measuring || asked >= MOST_PINGS) return;
    this.#last += 1;
    this.#pings.set(this.#last, { at: performance.now(), phase: this.#phase });
    this.#send({ type: 'ping', id: this.#last });
  }

  /** Counts unanswered pings with their age, which is a lower bound of their round trip. */
  #unanswered(): void {
    const now = performance.now();
    for (const { at, phase } of this.#pings.values()) this.#latency[phase].push((now - at) / 1000);
    this.#pings.clear();
  }

  #take(message: Message): void {
    if (message.type === 'pong') {
      const sent = this.#pings.get(Number(message['id']));
      if (sent === undefined) return;
      this.#pings.delete(Number(message['id']));
      // A ping belongs to the phase in which it was sent, however late the answer arrives.
      this.#latency[sent.phase].push((performance.now() - sent.at) / 1000);
      this.#tell();
    } else if (message.type === 'received') {
      if (this.#measuring && this.#phase === 'upload') this.#mark(Number(message['bytes']), Number(message['seconds']));
    } else {
      const waiting = this.#waiting.get(message.type);
      if (waiting === undefined) return;
      waiting(message);
    }
  }

  #await(...types: string[]): Promise<Message> {
    return new Promise((resolve) => {
      const done = (message: Message) => {
        for (const type of types) this.#waiting.delete(type);
        resolve(message);
      };
      for (const type of types) this.#waiting.set(type, done);
    });
  }

  #send(message: Message): void {
    if (!this.#isClosed && this.#control?.readyState === WebSocket.OPEN) this.#control.send(JSON.stringify(message));
  }
}
