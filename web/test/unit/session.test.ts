import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Mark, Result } from '../../src/speed/figures';
import { Cancelled, type Progress, SpeedSession } from '../../src/speed/session';

/** A server in the WebSocket's place, on a clock of the test's own. */
class Far {
  static readonly OPEN = 1;
  static control: Far;
  static data: Far[];
  static kept: (Result & { download_marks?: Mark[] }) | undefined;
  static phase: 'idle' | 'download' | 'upload';
  static phaseSeconds: number;
  /** Bytes that come each 0.1 s of a download, by its time, s. */
  static bytes: (at: number) => number;
  /** How long a ping's answer takes, s; absent: forever. */
  static answer: (phase: string) => number | undefined;

  readyState = 1;
  bufferedAmount = 1e9;
  onopen: (() => void) | undefined;
  onmessage: ((event: { data: unknown }) => void) | undefined;

  constructor(url: string) {
    if (url.includes('session=')) {
      Far.data.push(this);
      setTimeout(() => this.onopen?.(), 1);
      return;
    }
    Far.control = this;
    setTimeout(() => this.tell({ type: 'hello', session: 's', streams: 1, phase_seconds: Far.phaseSeconds, idle_seconds: 2, ping_seconds: 0.1 }), 1);
  }

  tell(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  send(data: string): void {
    const message = JSON.parse(data) as { type: string; id: number; phase: 'download' | 'upload' } & Result;
    if (message.type === 'ping') {
      const after = Far.answer(Far.phase);
      if (after !== undefined) setTimeout(() => this.tell({ type: 'pong', id: message.id }), after * 1000);
    } else if (message.type === 'start') {
      Far.phase = message.phase;
      setTimeout(() => this.tell({ type: 'started', phase: message.phase }), 1);
      for (let at = 0.1; message.phase === 'download' && at < Far.phaseSeconds; at += 0.1) {
        const bytes = Far.bytes(at);
        if (bytes > 0) setTimeout(() => Far.data[0]?.onmessage?.({ data: new ArrayBuffer(bytes) }), at * 1000);
      }
    } else if (message.type === 'stop') {
      const phase = Far.phase;
      Far.phase = 'idle';
      setTimeout(() => this.tell({ type: 'stopped', phase, bytes: 1000, seconds: Far.phaseSeconds }), 1);
    } else if (message.type === 'result') {
      Far.kept = message;
      setTimeout(() => this.tell({ type: 'kept', id: 'k', url: '/?result=k' }), 1);
    }
  }

  close(): void {}
}

async function play(): Promise<Result> {
  const done = new SpeedSession('ws://far', () => {}).run();
  await vi.advanceTimersByTimeAsync(60_000);
  await done;
  return Far.kept as Result;
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('WebSocket', Far);
  Object.assign(Far, { data: [], kept: undefined, phase: 'idle', phaseSeconds: 8, bytes: () => 100_000, answer: () => 0.01 });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('a speed test', () => {
  it('measures a steady download over its whole time', async () => {
    const { download } = await play();
    expect(download?.bits_per_second).toBeGreaterThan(7.8e6);
    expect(download?.bits_per_second).toBeLessThan(8.2e6);
    expect(download?.seconds).toBeGreaterThan(6.9);
  });

  it('does not keep the best seconds of a download that died', async () => {
    Far.bytes = (at) => (at < 2.05 ? 100_000 : 0);
    const { download } = await play();
    // A megabyte came after the first second, and then nothing until the eighth.
    expect(download?.seconds).toBeGreaterThan(6.9);
    expect(download?.bits_per_second).toBeLessThan(1.3e6);
  });

  it('shows at its end what it reports, and how far it is', async () => {
    // The last pings of the upload are never answered.
    Far.answer = (phase) => (phase === 'upload' ? undefined : 0.01);
    const seen: Progress[] = [];
    const done = new SpeedSession('ws://far', (one) => seen.push({ ...one, latency: structuredClone(one.latency) })).run();
    await vi.advanceTimersByTimeAsync(60_000);
    await done;
    expect(seen.at(-1)?.latency).toEqual(Far.kept?.latency);
    const fractions = seen.map((one) => one.fraction);
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    expect(fractions[0]).toBeLessThan(0.1);
    expect(fractions.at(-1)).toBe(1);
  });

  it('reports the course of the download, in few marks', async () => {
    await play();
    const marks = Far.kept?.download_marks ?? [];
    expect(marks.length).toBeGreaterThan(30);
    expect(marks.length).toBeLessThan(50);
    expect(marks.at(-1)?.seconds).toBeCloseTo(8, 1);
    expect(marks.every((mark, index) => index === 0 || (mark.seconds > (marks[index - 1]?.seconds ?? 0) && mark.bytes >= (marks[index - 1]?.bytes ?? 0)))).toBe(true);
  });

  it('ends without a result when it is cancelled', async () => {
    const session = new SpeedSession('ws://far', () => {});
    const end = session.run().then(() => undefined, (error: unknown) => error);
    await vi.advanceTimersByTimeAsync(5000);
    session.cancel();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await end).toBeInstanceOf(Cancelled);
    expect(Far.kept).toBeUndefined();
  });

  it('counts round trips that outlast their phase to that phase', async () => {
    Far.answer = (phase) => (phase === 'download' ? 6 : 0.01);
    const { latency } = await play();
    expect(latency.download.length).toBeGreaterThan(70);
    expect(Math.min(...latency.download)).toBeGreaterThan(5.9);
    expect(latency.upload.length).toBeGreaterThan(70);
    expect(Math.max(...latency.upload)).toBeLessThan(0.1);
  });

  it('counts a ping without an answer with its age, and goes on asking', async () => {
    Far.answer = (phase) => (phase === 'upload' ? undefined : 0.01);
    const { latency } = await play();
    expect(latency.upload.length).toBeGreaterThan(70);
    // The last was sent just before the end of the phase, the first eight seconds earlier.
    expect(Math.max(...latency.upload)).toBeGreaterThan(8);
    expect(latency.idle.length).toBeGreaterThan(15);
    expect(latency.idle.length).toBeLessThan(22);
  });
});
