// Triggers, the timeline and aggregates of an emulator.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { comes, lacking, open } from './harness.mjs';

const skip = lacking();
const options = { skip, timeout: 60_000 };
let site;

before(async () => {
  if (!skip) site = await open();
});
after(() => site?.close());
afterEach(() => site?.clear());

const start = (configuration) => site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: { schema: 'weir.impair/1', ...configuration } });
const COMMAND = { loss: { percentage: 100 }, trigger: { start: 'command', stop: 'command', rearm: true } };
const voice = (laws) => ({ name: 'voice', filter: { protocol: 'udp' }, ...laws });

test('the states of triggers are in the matrix, and a command meets their conditions', options, async () => {
  const emulator = start({ flow: [voice({ a_to_b: COMMAND, b_to_a: { loss: { percentage: 1 }, trigger: { start: 'after 5packets' } } }), { name: 'video', filter: {} }] });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const row = page.getByRole('row', { name: /voice/ });
  const states = async () => (await row.locator('.state').allInnerTexts()).map((text) => text.replace(/\s+/g, ' '));
  await comes(states, ['A→B waiting for trigger 0×', 'B→A waiting for trigger 0×']);
  await row.getByRole('button', { name: 'Trigger voice' }).click();
  await comes(states, ['A→B applying 1×', 'B→A waiting for trigger 0×']);
  await row.getByRole('button', { name: 'Trigger voice' }).click();
  await comes(states, ['A→B waiting for trigger 1×', 'B→A waiting for trigger 0×']);
  // The laws are shown although no figure can be asked for.
  await row.getByRole('link', { name: 'voice, A→B, Loss: Random 100 %' }).waitFor();
  // A flow without triggers has no button.
  assert.equal(await page.getByRole('button', { name: 'Trigger video' }).count(), 0);
  site.quiet();
});

test('a button of triggers that wait for no command is disabled', options, async () => {
  const emulator = start({ flow: [voice({ a_to_b: { loss: { percentage: 1 }, trigger: { start: 'after 5s', stop: 'after 1s' } } })] });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice` });
  const card = page.getByRole('region', { name: 'Laws of voice' });
  await card.getByText('next: after 5s; laws applied 0 times').waitFor();
  assert.ok(await card.getByRole('button', { name: 'Trigger voice' }).isDisabled());
  site.quiet();
});

test('a trigger is edited in the card of its flow and applied', options, async () => {
  const emulator = start({ flow: [voice({ a_to_b: { loss: { percentage: 100 } } })] });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice` });
  const lane = page.getByRole('group', { name: 'From A to B' });
  await lane.getByRole('button', { name: /^Trigger/ }).click();
  await comes(() => new URL(page.url()).hash, `#/emulator/${emulator.entry.id}/voice/a_to_b/trigger`);
  const editor = page.getByRole('region', { name: 'Trigger, settings' });
  await editor.getByLabel('Start').fill('command');
  await editor.getByLabel('Stop').fill('after 2s');
  await editor.getByLabel('Re-arm').check();
  await editor.getByLabel('Repeat').fill('2');
  await lane.getByText('start command, stop after 2s, re-arm, repeat 2').waitFor();
  await page.getByText('voice, A→B: trigger, not applied').waitFor();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Applied: all flows changed together.').waitFor();
  assert.deepEqual(emulator.configuration.flow[0].a_to_b.trigger, { start: 'command', stop: 'after 2s', rearm: true, repeat: 2 });
  await lane.getByText('next: command; laws applied 0 times').waitFor();
  await page.getByRole('button', { name: 'Trigger voice' }).first().click();
  await lane.getByText('next: after 2s; laws applied once').waitFor();
  site.quiet();
});

test('on a narrow screen a card has the states of its triggers', options, async () => {
  const emulator = start({ flow: [voice({ a_to_b: COMMAND })] });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}`, width: 390, height: 844 });
  const card = page.getByRole('region', { name: 'Flows' }).getByRole('listitem').filter({ hasText: 'voice' });
  await card.getByText('waiting for trigger').waitFor();
  await card.getByRole('button', { name: 'Trigger voice' }).click();
  await card.getByText('applying').waitFor();
  site.quiet();
});

const LOSS = (percentage) => ({ a_to_b: { loss: { percentage } }, b_to_a: { loss: { percentage } } });

test('the timeline shows its changes, its position and the laws that apply now', options, async () => {
  const emulator = start({ flow: [voice({})], timeline: { loop: '1000s', speed: 10, change: [{ at: '1s', flow: 'voice', ...LOSS(5) }, { at: '900s', flow: 'voice', ...LOSS(7) }] } });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const strip = page.getByRole('region', { name: 'Timeline' });
  await strip.getByText('loop of 16 min 40 s, speed 10').waitFor();
  await strip.locator('.position').filter({ hasText: /^at .* of 16 min 40 s, loop 1, after change 1 of 2$/ }).waitFor();
  assert.equal(await strip.locator('.tick').count(), 2);
  const place = async () => Number(await strip.locator('.now').getAttribute('x1'));
  const before = await place();
  await comes(async () => (await place()) > before, true, 'the position stands still');
  // The emulator's own words of the laws in force.
  await strip.locator('dd').filter({ hasText: emulator.report.impairment.flows[0].asked }).first().waitFor();
  await strip.getByText('Changes', { exact: true }).click();
  const rows = strip.getByRole('table', { name: 'Changes of the timeline' }).getByRole('row');
  assert.deepEqual((await rows.allInnerTexts()).slice(1).map((row) => row.split('\t').map((cell) => cell.trim())), [['1.000 s', 'voice', 'loss: Random 5 %'], ['900.0 s', 'voice', 'loss: Random 7 %']]);
  await comes(() => rows.nth(1).getAttribute('aria-current'), 'step');
  assert.equal(await rows.nth(2).getAttribute('aria-current'), null);
  site.quiet();
});

test('a timeline is typed, loaded from a file, applied and removed', options, async () => {
  const emulator = start({ flow: [voice({})] });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  await page.getByRole('button', { name: 'Timeline' }).click();
  const dialog = page.getByRole('dialog', { name: 'Timeline' });
  const text = dialog.getByRole('textbox', { name: /^Changes/ });
  await dialog.getByLabel('Loop').fill('60s');
  await text.fill('{"change": [');
  await dialog.getByRole('alert').getByText('line 1: not a timeline').waitFor();
  const change = [{ at: '10s', flow: 'voice', ...LOSS(5) }];
  await text.fill(JSON.stringify({ change }));
  await dialog.getByRole('alert').waitFor({ state: 'detached' });
  const apply = async () => {
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Apply' }).click();
    // It is disabled while it applies, too.
    await page.getByText(', not applied').waitFor({ state: 'detached' });
  };
  await page.getByText('timeline, not applied').waitFor();
  await apply();
  assert.deepEqual(emulator.configuration.timeline, { loop: '60s', change });
  await page.getByRole('region', { name: 'Timeline' }).getByRole('button', { name: 'Edit timeline' }).click();
  await comes(() => text.inputValue(), JSON.stringify({ change }));
  await dialog.getByLabel('Load file').setInputFiles({ name: 'link.csv', mimeType: 'text/csv', buffer: Buffer.from('time,loss\n0,1\n20,3\n') });
  const loaded = [{ at: '0s', ...LOSS(1) }, { at: '20s', ...LOSS(3) }];
  await comes(() => text.inputValue(), JSON.stringify({ change: loaded }));
  await apply();
  assert.deepEqual(emulator.configuration.timeline, { loop: '60s', change: loaded });
  await page.getByRole('button', { name: 'Edit timeline' }).click();
  await dialog.getByRole('button', { name: 'Remove timeline' }).click();
  await apply();
  assert.equal(emulator.configuration.timeline, undefined);
  await page.getByRole('region', { name: 'Timeline' }).waitFor({ state: 'detached' });
  site.quiet();
});

test('a member of an aggregate names the others and the laws that they share', options, async () => {
  const emulator = start({ flow: [voice({}), { name: 'video', filter: {} }, { name: 'bulk', filter: {} }], aggregate: [{ flows: ['voice', 'video'], a_to_b: { rate: { bits: '2M' } } }] });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice` });
  await page.getByText('In aggregate with video: A→B (rate 2 Mbit/s), B→A (no laws)').waitFor();
  await page.getByRole('region', { name: 'Laws of voice' }).getByRole('link', { name: 'video' }).click();
  await page.getByRole('region', { name: 'Laws of video' }).getByText('In aggregate with voice').waitFor();
  await page.getByRole('button', { name: 'Edit aggregates' }).click();
  await page.getByRole('dialog', { name: 'Aggregates' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'bulk', exact: true }).click();
  await page.getByRole('region', { name: 'Laws of bulk' }).waitFor();
  assert.equal(await page.getByText('In aggregate').count(), 0);
  site.quiet();
});
