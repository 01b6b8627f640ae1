// How old the page says its figures are, from the stream as the server writes it.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

/** The page's stream, with what the server tells it. */
async function reading() {
  let told!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({ start: (controller) => void (told = controller) });
  vi.stubGlobal('fetch', async () => new Response(body));
  vi.resetModules();
  const { stream } = await import('../../src/lib/live/stream.svelte');
  let heard = () => {};
  for (const event of ['hello', 'sample', 'state'] as const) stream.on({ [event]: () => heard() });
  stream.start();
  const tell = (event: string, data: object) => {
    told.enqueue(new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
    return new Promise<void>((resolve) => (heard = resolve));
  };
  await tell('hello', { instance: 'i', version: '0', at: ago(0), rate: 10 });
  return {
    behind: () => stream.behind,
    sample: (kind: string, id: string, seconds: number) => tell('sample', { kind, id, sequence: 1, skipped: 0, at: ago(seconds) }),
    state: (kind: string, id: string, state: string) => tell('state', { kind, id, state }),
  };
}

describe('figures that come late', () => {
  // The page's clock stands still: ages are those of the samples alone.
  beforeEach(() => void vi.spyOn(Date, 'now').mockReturnValue(NOW));
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });

  it('are those of the object that is furthest behind, even if another is recent', async () => {
    const page = await reading();
    await page.sample('tests', 'a', 7);
    expect(page.behind()).toBe(7);
    await page.sample('emulators', 'e', 0);
    await page.sample('tests', 'b', 3);
    expect(page.behind()).toBe(7);
    await page.sample('tests', 'a', 0);
    expect(page.behind()).toBe(3);
    await page.sample('tests', 'b', 1);
    expect(page.behind()).toBe(0);
  });

  it('are those of one kind and id: an emulator is not the test of its name', async () => {
    const page = await reading();
    await page.sample('tests', 'same', 5);
    await page.sample('emulators', 'same', 0);
    expect(page.behind()).toBe(5);
  });

  it('are nothing of what has ended, even where its last figures come behind that news', async () => {
    const page = await reading();
    await page.sample('tests', 'a', 7);
    await page.state('tests', 'a', 'running');
    expect(page.behind()).toBe(7);
    await page.state('tests', 'a', 'ended');
    expect(page.behind()).toBe(0);
    await page.sample('tests', 'a', 9);
    expect(page.behind()).toBe(0);
    await page.sample('tests', 'b', 4);
    expect(page.behind()).toBe(4);
  });
});
