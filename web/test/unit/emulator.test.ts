import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Board, rebased } from '../../src/lib/emulator.svelte';
import type { JsonObject, Schema } from '../../src/lib/schema/model';

const impair = JSON.parse(readFileSync(new URL('../../../docs/schemas/weir.impair-1.schema.json', import.meta.url), 'utf8')) as Schema;
const named = (document: JsonObject) => (document['flow'] as JsonObject[]).map((flow) => flow['name']);

describe('staged changes on top of another’s', () => {
  const a: JsonObject = { name: 'a', filter: { protocol: 'udp' } };
  const b: JsonObject = { name: 'b', a_to_b: { loss: { percentage: 1 } } };
  const base: JsonObject = { schema: 'weir.impair/1', flow: [a, b] };

  it('keep a flow that only they have, and one that only is staged', () => {
    const mine = { ...base, flow: [a, b, { name: 'mine' }] };
    const theirs = { ...base, flow: [{ name: 'theirs' }, a, b] };
    expect(named(rebased(base, mine, theirs))).toEqual(['theirs', 'a', 'b', 'mine']);
  });

  it('leave out what either removed, unless the other changed it', () => {
    expect(named(rebased(base, { ...base, flow: [a] }, { ...base, flow: [a, b, { name: 'c' }] }))).toEqual(['a', 'c']);
    expect(named(rebased(base, { ...base, flow: [a, b, { name: 'c' }] }, { ...base, flow: [b] }))).toEqual(['b', 'c']);
    const changed = { ...base, flow: [a, { name: 'b', a_to_b: { loss: { percentage: 2 } } }] };
    expect(rebased(base, changed, { ...base, flow: [a] })).toEqual(changed);
    expect(rebased(base, { schema: 'weir.impair/1' }, { ...base, flow: [a, b, { name: 'c' }] })).toEqual({ schema: 'weir.impair/1', flow: [{ name: 'c' }] });
    expect(rebased({ schema: 'weir.impair/1' }, { schema: 'weir.impair/1', seed: '0x1' }, base)).toEqual({ ...base, seed: '0x1' });
  });

  it('keep both orders as far as they go together', () => {
    expect(named(rebased(base, { ...base, flow: [b, a] }, { ...base, flow: [a, { name: 'c' }, b] }))).toEqual(['b', 'a', 'c']);
    expect(named(rebased(base, { ...base, flow: [a, { name: 'mine' }, b] }, { ...base, flow: [b, a] }))).toEqual(['b', 'a', 'mine']);
  });

  it('merge the settings of one flow, with one law in a slot', () => {
    const mine = { ...base, flow: [a, { name: 'b', a_to_b: { loss: { percentage: 1 }, delay: { constant: '20ms' } } }] };
    const theirs = { ...base, flow: [a, { name: 'b', a_to_b: { loss: { percentage: 3 }, delay: { exponential: { mean: '9ms' } } }, b_to_a: { delay: { constant: '7ms' } } }] };
    const made = (rebased(base, mine, theirs, impair)['flow'] as JsonObject[])[1];
    expect(made).toEqual({ name: 'b', a_to_b: { loss: { percentage: 3 }, delay: { constant: '20ms' } }, b_to_a: { delay: { constant: '7ms' } } });
  });
});

describe('the second editor', () => {
  const V = 'weir.impair/1';
  const first: JsonObject = { schema: V, flow: [{ name: 'a' }] };
  /** A server of one emulator; `configuration` is what is in force. */
  function server(start: JsonObject) {
    const state = { configuration: start, puts: [] as { match: string | null; body: JsonObject }[] };
    const tag = () => Buffer.from(JSON.stringify(state.configuration)).toString('base64url');
    vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
      const headers = new Headers(init.headers);
      const answer = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status, headers: { ETag: `"${tag()}"` } });
      if (url.endsWith('/counters')) return answer({ seconds: 1, directions: [], impairment: { flows: [] }, alarms: [] });
      if (url.includes('/validate/')) return answer({ valid: true, errors: [], notes: [] });
      if (url.endsWith('/configuration') && init.method === 'PUT') {
        const match = headers.get('If-Match');
        if (match !== `"${tag()}"`) return answer({ type: '', title: '', status: 412, detail: 'changed', errors: [], changed: { document: '', by: '192.0.2.5', at: '', etag: tag() } }, 412);
        state.configuration = JSON.parse(String(init.body)) as JsonObject;
        state.puts.push({ match, body: state.configuration });
        return answer({ configuration: 1, etag: tag() });
      }
      if (url.endsWith('/configuration')) return answer(state.configuration);
      if (init.method === 'POST') return answer({ configuration: 0, etag: tag() });
      return answer({ id: 'e', stopped_flows: [] });
    });
    return state;
  }
  const board = async () => {
    const made = new Board('e');
    await made.load();
    return made;
  };
  afterEach(() => void vi.unstubAllGlobals());

  for (const [what, look] of [
    ['a reconnect', (one: Board) => one.load()],
    ['Run', (one: Board) => one.run(true)],
    ['Stop of a flow', (one: Board) => one.run(false, 'a')],
  ] as const) {
    it(`is reported after ${what}, and Apply keeps their changes`, async () => {
      const state = server(first);
      const one = await board();
      one.change('/flow/0/a_to_b/loss/percentage', 2);
      state.configuration = { schema: V, flow: [{ name: 'a' }, { name: 'theirs' }] };
      await look(one);
      expect(one.conflict).toBeDefined();
      await one.apply();
      expect(state.puts).toEqual([]);
      expect(one.conflict).toBeDefined();
      await one.takeTheirs();
      expect(one.conflict).toBeUndefined();
      await one.apply();
      expect(state.puts[0]?.body).toEqual({ schema: V, flow: [{ name: 'a', a_to_b: { loss: { percentage: 2 } } }, { name: 'theirs' }] });
      one.close();
    });
  }

  it('is shown theirs where nothing is staged', async () => {
    const state = server(first);
    const one = await board();
    state.configuration = { schema: V, flow: [{ name: 'b' }] };
    await one.load();
    expect(one.conflict).toBeUndefined();
    expect(one.staged).toEqual(state.configuration);
    one.close();
  });

  it('takes back an apply without taking back what came since', async () => {
    const state = server(first);
    const one = await board();
    one.change('/flow/0/a_to_b/loss/percentage', 2);
    await one.apply();
    state.configuration = { schema: V, seed: '0x9', flow: [{ name: 'a', a_to_b: { loss: { percentage: 2 } } }, { name: 'theirs' }] };
    await one.load();
    one.undo();
    expect(one.staged).toEqual({ schema: V, seed: '0x9', flow: [{ name: 'a' }, { name: 'theirs' }] });
    expect(one.canUndo).toBe(false);
    one.close();
  });

  it('takes back staged edits one by one', async () => {
    server(first);
    const one = await board();
    one.change('/flow/0/a_to_b/loss/percentage', 2);
    one.change('/flow/0/a_to_b/loss/percentage', 3);
    one.undo();
    expect(one.staged).toEqual({ schema: V, flow: [{ name: 'a', a_to_b: { loss: { percentage: 2 } } }] });
    one.undo();
    expect(one.staged).toEqual(first);
    one.close();
  });
});
