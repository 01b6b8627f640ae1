// The emulator reports which flows are traced; without a packet trace none can be, and the page says why.
import { render } from 'svelte/server';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { EmulatorEntry, Report } from '../../src/lib/api/shapes';
import { Board } from '../../src/lib/emulator.svelte';
import FlowActions from '../../src/views/emulator/FlowActions.svelte';
import Log from '../../src/views/emulator/Log.svelte';

function board(packet_trace: EmulatorEntry['packet_trace'], traced: Record<string, boolean> = {}): Board {
  const made = new Board('e1');
  made.entry = { id: 'e1', interfaces: ['a', 'b'], links: [], notes: [], real_time: false, etag: 'c0', seed: '0x7', stopped_flows: [], own: true, packet_trace };
  made.report = report(packet_trace, traced);
  return made;
}

function report(packet_trace: EmulatorEntry['packet_trace'], traced: Record<string, boolean>): Report {
  const flows = Object.entries(traced).map(([name, on]) => ({ name, direction: 'forward', active: true, counters: {}, current: { counters: {}, realised: {} }, asked: '', realised: {}, traced: on }));
  const told = packet_trace === 'none' ? {} : { packet_trace: { path: '/far/j.packets', records: 12, dropped_records: 3, failed: false, bytes: 2048, limit_bytes: 4096 } };
  return { seconds: 1, directions: [], impairment: { flows }, ...told } as unknown as Report;
}

const nothing = () => undefined;
/** The Trace button of a flow. */
function button(one: Board, name: string): string {
  const row = { path: name === 'other' ? '/other' : '/flow/0', name, flow: { name }, isNew: false };
  const { body } = render(FlowActions, { props: { board: one, row, onedit: nothing, onremove: nothing, onmove: nothing } });
  return [...body.matchAll(/<button[^>]*>/g)].map((found) => found[0]).find((found) => found.includes(`aria-label="Trace ${name}"`)) ?? '';
}

describe('the Trace button', () => {
  afterEach(() => void vi.unstubAllGlobals());

  it('is off without a packet trace, and says why', () => {
    const found = button(board('none'), 'voice');
    expect(found).toContain('disabled');
    expect(found).toContain('started without a packet trace');
    expect(found).toContain('aria-pressed="false"');
  });

  it('shows which flows are traced, as the emulator tells', () => {
    for (const place of ['stored', 'external'] as const) {
      const one = board(place, { voice: false, other: true });
      expect(button(one, 'voice')).not.toContain('disabled');
      expect(button(one, 'voice')).toContain('aria-pressed="false"');
      expect(button(one, 'other')).toContain('aria-pressed="true"');
    }
  });

  it('shows what came of it at once', async () => {
    const asked: string[] = [];
    vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
      asked.push(`${init.method} ${url} ${String(init.body ?? '')}`);
      return url.endsWith('/trace') ? new Response(null, { status: 204 }) : new Response(JSON.stringify(report('stored', { voice: true, other: true })));
    });
    const one = board('stored', { voice: false, other: true });
    await one.trace('voice', true);
    expect(asked[0]).toBe('PUT /api/v1/emulators/e1/flows/voice/trace {"on":true}');
    expect(button(one, 'voice')).toContain('aria-pressed="true"');
    one.close();
  });
});

describe('the packet trace', () => {
  const body = (one: Board) => render(Log, { props: { board: one } }).body;

  it('can be had where this server keeps it', () => {
    expect(body(board('stored'))).toContain('href="/api/v1/emulators/e1/packet-trace"');
    expect(body(board('stored'))).toContain('3 missing');
    expect(body(board('external'))).not.toContain('href');
    expect(body(board('external'))).toContain('/far/j.packets');
    expect(body(board('none'))).toContain('No packet trace');
  });

  it('is listed with captures and logs that other programs started', () => {
    const one = board('none');
    const recording = { kind: 'capture', path: '/far/x.pcapng', flow: 'voice', start_seconds: 0, state: 'disk_full', records: 7, bytes: 2048, dropped_records: 5 };
    one.report = { ...one.report, recordings: [recording] } as unknown as Report;
    for (const found of ['/far/x.pcapng', 'Capture of voice', 'disk full', '5 missing']) expect(body(one)).toContain(found);
  });
});
