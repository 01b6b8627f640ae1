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
  def('Counters').properties['policed_packets'] = { type: 'integer', description: 'Packets that a policer dropped.', 'x-stage': 'rate' };
  def('Counters').properties['strayed_packets'] = { type: 'integer', description: 'Packets that strayed.' };
});

const form = (schema: Schema, value: JsonObject) => render(SchemaForm, { props: { root, schema, value, onchange: () => undefined } }).body;
const delayField = (name: string): Field => fieldOf(root, def('Delay'), name);

function board(laws: JsonObject, counters: Record<string, number> = {}): Board {
  const made = new Board('e');
  made.staged = { schema: 'weir.impair/1', other: { a_to_b: laws } };
  const flows = [{ name: 'other', direction: 'forward', active: true, counters, asked: '', realised: {} }];
  made.report = { seconds: 1, directions: [], impairment: { flows } } as unknown as NonNullable<Board['report']>;
  return made;
}

const lane = (laws: JsonObject, counters: Record<string, number>) =>
  render(Lane, { props: { board: board(laws, counters), schema: root, way: 'a_to_b', name: 'other', path: '/other/a_to_b', laws, open: undefined, onopen: () => undefined } }).body;

/** The lane's parts: each card by its title, and what stands behind the last. */
function parts(body: string) {
  const cards = [...body.matchAll(/<button class="card[\s\S]*?<\/button>/g)].map((one) => one[0]);
  return { card: (title: string) => cards.find((one) => one.includes(title)) ?? '', end: body.slice(body.lastIndexOf('</button>')) };
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
    expect(parts(lane(laws, {})).card('Rate and queue')).toContain('rate bits 10M, policer 5M');
    const editor = render(LawEditor, { props: { board: board(laws), schema: root, way: 'a_to_b', name: 'other', path: '/other/a_to_b', stage: 'rate', onclose: () => undefined } }).body;
    for (const words of ['Drops what is too much.', 'value="5M"', 'value="10M"']) expect(editor).toContain(words);
    expect(editor).not.toContain('Order of the stages');
  });

  it('is a counter in the card of its stage, else at the end of the lane', () => {
    const { card, end } = parts(lane({}, { received_packets: 200, sent_packets: 150, lost_packets: 4, policed_packets: 50, strayed_packets: 7, unheard_packets: 3 }));
    expect(card('Rate and queue')).toMatch(/Packets that a policer dropped[\s\S]*policed[\s\S]*25/);
    expect(card('Loss and duplication')).not.toContain('policed');
    expect(end).toContain('7 strayed');
    expect(end).toContain('title="Packets that strayed."');
    expect(end).toContain('3 unheard');
    expect(end).not.toContain('policed');
    expect(end).not.toContain('lost');
  });
});
