// A law, a parameter, a stage's slot and counters that no line of the page knows, added to the published schema: they
// are in the form and in the lane.
import { readFileSync } from 'node:fs';
import { render } from 'svelte/server';
import { beforeAll, describe, expect, it } from 'vitest';
import { Board } from '../../src/lib/emulator.svelte';
import { type Field, fieldOf, type JsonObject, type Schema, starterOf } from '../../src/lib/schema/model';
import SchemaForm from '../../src/lib/schema/SchemaForm.svelte';
import Lane from '../../src/views/emulator/Lane.svelte';
import LawEditor from '../../src/views/emulator/LawEditor.svelte';

const published = readFileSync(new URL('../../../docs/schemas/weir.impair-1.schema.json', import.meta.url), 'utf8');
/** The schema as it would be: `$defs` are open to change. */
const root = JSON.parse(published) as Schema & { $defs: Record<string, Schema & { properties: Record<string, Schema>; required: string[] }> };
const def = (name: string) => {
  const found = root.$defs[name];
  if (found === undefined) throw new Error(`no ${name}`);
  return found;
};

beforeAll(() => {
  root.$defs['Pareto'] = { type: 'object', description: 'A Pareto delay.', properties: { scale: { $ref: '#/$defs/Span', description: 'Least delay.', examples: ['3ms'] }, shape: { type: 'number', description: 'How heavy the tail is.', examples: [2.5] } }, required: ['scale', 'shape'] };
  def('Delay').properties['pareto'] = { anyOf: [{ $ref: '#/$defs/Pareto' }, { type: 'null' }], description: 'Heavy tail.' };
  def('Delay')['x-one-of']?.push('pareto');
  def('Normal').properties['skewness'] = { type: ['number', 'null'], description: 'Skew of the distribution.' };
  def('Laws').properties['policer'] = { type: ['string', 'null'], description: 'Drops what is too much.', examples: ['5M'], 'x-stage': 'rate' };
  def('EmulatorCounters').properties['policed_packets'] = { type: 'integer', description: 'Packets that a policer dropped.', 'x-stage': 'rate' };
  def('EmulatorCounters').properties['policed_bytes'] = { type: 'integer', description: 'Bytes that a policer dropped.', 'x-stage': 'rate' };
  def('EmulatorCounters').properties['refills'] = { type: 'integer', description: 'Times the bucket was filled.', 'x-stage': 'rate' };
  def('EmulatorCounters').properties['strayed_packets'] = { type: 'integer', description: 'Packets that strayed.' };
  def('EmulatorCounters').properties['strayed_bytes'] = { type: 'integer', description: 'Bytes that strayed.' };
});

const form = (schema: Schema, value: JsonObject) => render(SchemaForm, { props: { root, schema, value, onchange: () => undefined } }).body;
const delayField = (name: string): Field => fieldOf(root, def('Delay'), name);

function board(laws: JsonObject, counters: Record<string, number> = {}): Board {
  const made = new Board('e');
  made.staged = { schema: 'weir.impair/1', other: { a_to_b: laws } };
  const flows = [{ name: 'other', direction: 'forward', active: true, counters, current: { counters, realised: {} }, asked: '', realised: {} }];
  made.report = { seconds: 1, directions: [], impairment: { flows } } as unknown as NonNullable<Board['report']>;
  return made;
}

const lane = (laws: JsonObject, counters: Record<string, number>) =>
  render(Lane, { props: { board: board(laws, counters), schema: root, way: 'a_to_b', name: 'other', path: '/other/a_to_b', laws, open: undefined, onopen: () => undefined } }).body;

/** The lane's parts: each card by its title, and what stands behind the last. */
function parts(body: string) {
  const cards = [...body.matchAll(/<button class="card[\s\S]*?<\/button>/g)].map((one) => one[0]);
  return { card: (title: string) => cards.find((one) => one.includes(`>${title}<`)) ?? '', end: body.slice(body.lastIndexOf('</button>')) };
}

describe('what the schema gains', () => {
  it('is a law to choose, with its parameters and values to begin with', () => {
    expect(form(def('Delay'), {})).toContain('<option value="pareto">');
    const begun = starterOf(root, delayField('pareto'));
    expect(begun).toEqual({ scale: '3ms', shape: 2.5 });
    const body = form(def('Delay'), { pareto: begun });
    for (const words of ['Heavy tail.', 'Least delay.', 'How heavy the tail is.', 'value="3ms"', 'value="2.5"']) expect(body).toContain(words);
  });

  it('is a parameter of a law that was there', () => {
    expect(form(def('Delay'), { normal: { mean: '20ms', deviation: '5ms' } })).toContain('Skew of the distribution.');
  });

  it('is a slot beside another of the same stage', () => {
    const laws = { rate: { bits: '10M' }, policer: '5M' };
    expect(parts(lane(laws, {})).card('Rate and queue')).toContain('rate 10 Mbit/s; policer 5M');
    const editor = render(LawEditor, { props: { board: board(laws), schema: root, way: 'a_to_b', name: 'other', path: '/other/a_to_b', stage: 'rate', onclose: () => undefined } }).body;
    for (const words of ['Drops what is too much.', 'value="5M"', 'value="10M"']) expect(editor).toContain(words);
    expect(editor).not.toContain('Order of the stages');
  });

  it('is a counter in the card of its stage, else at the end of the lane', () => {
    const { card, end } = parts(lane({}, { received_packets: 200, sent_packets: 150, lost_packets: 4, policed_packets: 50, strayed_packets: 7, unheard_packets: 3 }));
    expect(card('Rate and queue')).toMatch(/Packets that a policer dropped[\s\S]*policed[\s\S]*25/);
    expect(card('Loss and duplication')).not.toContain('policed');
    expect(end).toContain('7 pkt strayed');
    expect(end).toContain('title="Packets that strayed. 7 packets"');
    expect(end).toContain('3 pkt unheard');
    expect(end).not.toContain('policed');
    expect(end).not.toContain('pkt lost');
  });

  it('is a counter of bytes, or of no unit, in the same places', () => {
    const { card, end } = parts(lane({}, { received_packets: 200, policed_bytes: 2048, refills: 1234, strayed_bytes: 0, unheard_bytes: 512 }));
    expect(card('Rate and queue')).toMatch(/Bytes that a policer dropped[\s\S]*>policed<[\s\S]*title="2\u202f048 bytes">2.000 KiB</);
    expect(card('Rate and queue')).toMatch(/Times the bucket was filled[\s\S]*>refills<[\s\S]*title="1\u202f234">1\u202f234</);
    for (const words of ['0 B strayed', '512 B unheard']) expect(end).toContain(words);
    for (const words of ['policed', 'refills']) expect(end).not.toContain(words);
  });
});

describe('the lane', () => {
  it('shows every counter of the published schema, each in its stage', () => {
    const schema = JSON.parse(published) as typeof root;
    const counters = Object.entries(schema.$defs['EmulatorCounters']?.properties ?? {});
    expect(counters.length).toBeGreaterThan(0);
    // Each has a value that no other has, and nothing came, so that none is shown as a share.
    const values = Object.fromEntries(counters.map(([key], index) => [key, key === 'received_packets' ? 0 : 101 + index]));
    const props = { board: board({}, values), schema, way: 'a_to_b' as const, name: 'other', path: '/other/a_to_b', laws: {}, open: undefined, onopen: () => undefined };
    const body = render(Lane, { props }).body;
    for (const [key, { 'x-stage': stage }] of counters) {
      const title = schema.$defs['Stage']?.oneOf?.find((one) => one.const === stage)?.description?.replace(/\.$/, '');
      const place = title === undefined ? body.replace(/<button class="card[\s\S]*?<\/button>/g, '') : parts(body).card(title);
      const unit = key.endsWith('_bytes') ? ' B' : key.endsWith('_packets') ? ' pkt' : '';
      expect(place, key).toContain(`${values[key]}${unit}`);
    }
  });
});
