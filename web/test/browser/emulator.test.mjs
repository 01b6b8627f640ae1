// The emulator's board: staged, previewed, applied together; conflicts, alarms, and a law that the page does not know.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { comes, lacking, never, open } from './harness.mjs';

const skip = lacking();
const options = { skip, timeout: 60_000 };
let site;

before(async () => {
  if (!skip) site = await open();
});
after(() => site?.close());
afterEach(() => site?.clear());

const fresh = () => site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: { schema: 'weir.impair/1', flow: [{ name: 'voice', filter: { protocol: 'udp' } }] } });
/** The page reads the stream, this emulator's figures with it: what is sent from now on arrives. */
const heard = (emulator) => comes(() => site.mock.sampled.includes(`emulators:${emulator.entry.id}`), true, 'the page does not listen');
const lane = (page, way) => page.getByRole('group', { name: way });

async function openLaw(page, stage) {
  await page.getByRole('link', { name: 'voice', exact: true }).click();
  await lane(page, 'From A to B').getByRole('button', { name: stage }).click();
  return page.getByRole('region', { name: /, settings/ });
}

test('an emulator is started between two interfaces', options, async () => {
  const page = await site.page({ hash: '#/emulator' });
  await page.getByLabel('A, the client’s side').selectOption('veth-a');
  await page.getByLabel('B, the server’s side').selectOption('veth-b');
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByText('veth-a ⇄ veth-b').first().waitFor();
  await page.getByRole('button', { name: '+ Flow' }).click();
  await page.getByRole('dialog', { name: /Flow/ }).getByLabel('Name', { exact: true }).fill('voice');
  await page.keyboard.press('Escape');
  await page.getByText('voice added, not applied').waitFor();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Applied: all flows changed together.').waitFor();
  const [emulator] = site.mock.emulators.values();
  assert.deepEqual(emulator.configuration.flow.map((flow) => flow.name), ['voice']);
  site.quiet();
});

test('a refused start says at which field', options, async () => {
  const page = await site.page({ hash: '#/emulator/new', tolerate: (words) => words.includes('422') });
  const errors = [{ field: '/interfaces/1', message: 'no such interface' }, { field: '/keepalive_timeout_seconds', message: '1 to 86400' }, { field: '/link', message: 'another thing' }];
  await page.route('**/api/v1/emulators', (route) => (route.request().method() === 'POST' ? route.fulfill({ status: 422, contentType: 'application/problem+json', json: { title: 'invalid', status: 422, detail: 'invalid', errors } }) : route.continue()));
  await page.getByLabel('A, the client’s side').selectOption('veth-a');
  await page.getByLabel('B, the server’s side').selectOption('veth-b');
  await page.getByRole('button', { name: '▶ Start' }).click();
  const words = async (label) => page.locator('label', { hasText: label }).getByRole('alert').allInnerTexts();
  await comes(() => words('B, the server’s side'), ['no such interface']);
  assert.deepEqual(await words('A, the client’s side'), []);
  assert.deepEqual(await words('Keepalive timeout'), ['1 to 86400']);
  assert.equal(await page.getByLabel('B, the server’s side').getAttribute('aria-invalid'), 'true');
  assert.equal(await page.getByRole('alert').count(), 3);
  site.quiet();
});

test('a packet trace starts with the emulator, flows are excluded and included, and it can be downloaded', options, async () => {
  const bodies = [];
  const page = await site.page({ hash: '#/emulator/new' });
  page.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/emulators') && bodies.push(request.postDataJSON()));
  await page.getByLabel('A, the client’s side').selectOption('veth-a');
  await page.getByLabel('B, the server’s side').selectOption('veth-b');
  const box = page.getByRole('checkbox', { name: /^Packet trace/ });
  assert.equal(await box.isChecked(), false, 'no packet trace by default');
  await page.getByText('1.000 GiB at most').waitFor();
  await box.check();
  await page.getByRole('button', { name: '▶ Start' }).click();
  // All is traced from the start; the button says what the emulator tells, not what was pressed.
  const log = page.getByRole('button', { name: 'Trace other' });
  await page.getByRole('button', { name: 'Trace other', pressed: true }).waitFor();
  assert.equal(bodies[0].packet_trace, true);
  const emulator = [...site.mock.emulators.values()].at(-1);
  await page.getByRole('tab', { name: 'Log', exact: true }).click();
  await page.getByText(/Packet trace: [1-9][\d\u202f]* verdicts, .* [KMG]?i?B of 1\.000 GiB at most/).waitFor();
  await log.click();
  await page.getByRole('button', { name: 'Trace other', pressed: false }).waitFor();
  assert.deepEqual([...emulator.untraced], ['other']);
  await page.getByText('trace other off').waitFor();
  await log.click();
  await page.getByRole('button', { name: 'Trace other', pressed: true }).waitFor();
  assert.deepEqual([...emulator.untraced], []);
  for (const [link, file, words] of [['Download', `${emulator.entry.id}.packets`, /^weir\.packets of [1-9]\d* verdicts$/], ['Later configurations', `${emulator.entry.id}.packets.configurations`, /^$/]]) {
    const started = page.waitForEvent('download');
    await page.getByRole('link', { name: link, exact: true }).click();
    const download = await started;
    assert.equal(download.suggestedFilename(), file);
    assert.match(readFileSync(await download.path(), 'utf8'), words);
  }
  // Stopping it asks for confirmation that the packet trace is deleted.
  const asked = page.waitForEvent('dialog');
  const clicked = page.getByRole('button', { name: 'End', exact: true }).click();
  const dialog = await asked;
  assert.match(dialog.message(), /packet trace/);
  await dialog.dismiss();
  await clicked;
  site.quiet();
});

test('without a packet trace no flow can be traced, and the page says why', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  await page.getByRole('link', { name: 'voice', exact: true }).click();
  const log = page.getByRole('button', { name: 'Trace voice' });
  await log.waitFor();
  await page.getByTitle('This emulator was started without a packet trace').first().waitFor();
  assert.ok(await log.isDisabled());
  await page.getByRole('tab', { name: 'Log', exact: true }).click();
  await page.getByText('No packet trace: start an emulator with one').waitFor();
  await never(page.getByRole('link', { name: 'Download' }), 'of what is not there');
  site.quiet();
});

test('a law is previewed while it is edited, staged, applied with others at once, and undone', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const editor = await openLaw(page, /Delay and jitter/);
  await editor.getByLabel('law').selectOption('normal');
  await editor.getByLabel('mean').fill('40ms');
  await editor.getByLabel('deviation').fill('8ms');
  const preview = page.getByRole('region', { name: 'Preview' });
  await preview.getByText('40.00 ms').first().waitFor();
  await preview.getByRole('group', { name: 'Histogram of delay' }).waitFor();
  await lane(page, 'From B to A').getByRole('button', { name: /^Loss/ }).click();
  await page.getByRole('region', { name: /, settings/ }).getByLabel('law').selectOption('percentage');
  assert.equal(emulator.version, 0, 'something was applied before Apply');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Applied: all flows changed together.').waitFor();
  assert.equal(emulator.version, 1);
  assert.deepEqual(emulator.configuration.flow[0].a_to_b.delay, { normal: { mean: '40ms', deviation: '8ms' } });
  assert.deepEqual(emulator.configuration.flow[0].b_to_a.loss, { percentage: 1 });
  await page.getByRole('region', { name: 'Staged changes' }).getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.waitForFunction(() => document.body.innerText.includes('Changes are staged here'));
  assert.equal(emulator.configuration.flow[0].a_to_b, undefined);
  site.quiet();
});

test('a refused law is shown next to its field, and is not applied', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}`, tolerate: (words) => words.includes('422') });
  const editor = await openLaw(page, /^Loss/);
  await editor.getByLabel('law').selectOption('percentage');
  await editor.getByLabel('Random').fill('300');
  await editor.getByText('300; accepted: 0 to 100').waitFor();
  await comes(() => editor.getByLabel('Random').getAttribute('aria-invalid'), 'true');
  await lane(page, 'From A to B').getByText('refused').waitFor();
  await editor.getByLabel('Random').fill('3');
  await editor.getByText('300; accepted').waitFor({ state: 'detached' });
  site.quiet();
});

test('a preview of what can not be computed is refused beside the field, and nothing else is computed instead', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const editor = await openLaw(page, /Delay and jitter/);
  await editor.getByLabel('law').selectOption('normal');
  const preview = page.getByRole('region', { name: 'Preview' });
  await preview.getByText('at the flow’s rate and size').waitFor();
  await preview.getByText('packets by the engine').waitFor();
  const settled = () => page.getByRole('region', { name: 'Preview' }).and(page.locator('[aria-busy="false"]')).waitFor();
  await settled();
  const asked = () => site.mock.calls.filter((one) => one.endsWith('/laws/preview')).length;
  const before = asked();
  for (const [field, wrong, right, words] of [['Packets per second', 'fast', '50', 'fast; accepted: 0.1 to'], ['Bytes of a frame', '1.5', '1500', '1.5; accepted: 14 to']]) {
    await preview.getByLabel(field).fill(wrong);
    await preview.getByText(words).waitFor();
    await comes(() => preview.getByLabel(field).getAttribute('aria-invalid'), 'true');
    await settled();
    assert.equal(asked(), before + (field === 'Packets per second' ? 0 : 1));
    await preview.getByLabel(field).fill(right);
    await preview.getByText(words).waitFor({ state: 'detached' });
    await settled();
  }
  assert.equal(asked(), before + 2);
  site.quiet();
});

test('a conflicting edit is reported, and can be applied to the other one', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const editor = await openLaw(page, /^Loss/);
  await editor.getByLabel('law').selectOption('percentage');
  const theirs = structuredClone(emulator.configuration);
  theirs.flow[0].b_to_a = { delay: { constant: '70ms' } };
  site.mock.configure(emulator.entry.id, theirs, '192.0.2.55');
  await page.getByText(/192\.0\.2\.55 changed this emulator/).waitFor();
  await page.getByRole('button', { name: 'Apply my changes to theirs' }).click();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Applied: all flows changed together.').waitFor();
  assert.deepEqual(emulator.configuration.flow[0].b_to_a, { delay: { constant: '70ms' } });
  assert.deepEqual(emulator.configuration.flow[0].a_to_b, { loss: { percentage: 1 } });
  site.quiet();
});

test('with nothing staged, what others change is simply shown', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  await page.getByRole('link', { name: 'voice', exact: true }).click();
  await heard(emulator);
  site.mock.configure(emulator.entry.id, { ...emulator.configuration, flow: [{ name: 'voice', filter: { protocol: 'udp' }, a_to_b: { delay: { constant: '33ms' } } }] }, '192.0.2.55');
  await lane(page, 'From A to B').getByText('constant 33ms').waitFor();
  await page.getByText('192.0.2.55 changed this emulator').waitFor();
  site.quiet();
});

test('flows are run and stopped one by one and all together', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  await page.getByRole('button', { name: 'Bypass voice' }).click();
  await page.getByRole('button', { name: 'Run voice' }).waitFor();
  assert.deepEqual(emulator.entry.stopped_flows, ['voice']);
  await page.getByRole('button', { name: '■ Bypass all' }).click();
  await page.getByRole('button', { name: 'Run other' }).waitFor();
  await page.getByRole('button', { name: '▶ Run all' }).click();
  await page.getByRole('button', { name: 'Bypass voice' }).waitFor();
  assert.deepEqual(emulator.entry.stopped_flows, []);
  site.quiet();
});

const NAMES = ['voice', 'video', 'web', 'ssh', 'dns', 'backup', 'sync', 'telemetry', 'iptv', 'gaming', 'meet', 'mail', 'ntp', 'syslog', 'snmp', 'vpn', 'bulk'];
const cell = (page, flow, way, stage) => page.getByRole('table', { name: /^Flows/ }).getByRole('link', { name: new RegExp(`^${flow}, ${way}, ${stage}`) });

test('seventeen flows are in sight with what is asked and measured, and each has a card with an address', options, async () => {
  const flow = NAMES.map((name, index) => ({ name, filter: { protocol: 'udp' }, a_to_b: { loss: { percentage: index + 1 }, delay: { normal: { mean: '20ms', deviation: '5ms' } } }, b_to_a: { rate: { bits: '2M' } } }));
  const emulator = site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: { schema: 'weir.impair/1', flow } });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}`, width: 1600, height: 1100 });
  await page.getByRole('link', { name: 'bulk', exact: true }).waitFor();
  const bar = (await page.getByRole('region', { name: 'Staged changes' }).boundingBox()).y;
  for (const name of NAMES) {
    const { y, height } = await page.getByRole('link', { name, exact: true }).boundingBox();
    assert.ok(y > 0 && y + height < bar, `${name} is out of sight: ${y}`);
  }
  assert.equal(await cell(page, 'web', 'A→B', 'Loss').innerText(), '3.00 %');
  assert.match(await cell(page, 'web', 'A→B', 'Delay').innerText(), /^20\.0 ± 5 ms$/);
  assert.equal(await cell(page, 'web', 'B→A', 'Rate').innerText(), '2.00 Mbit/s');
  // Measured, beside it.
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'web', exact: true }) });
  await row.getByText(/^[23]\.\d\d %$/).nth(1).waitFor();
  await cell(page, 'web', 'A→B', 'Loss').click();
  await page.getByRole('region', { name: 'Laws of web' }).waitFor();
  await page.getByRole('region', { name: 'Loss, settings' }).waitFor();
  assert.ok(page.url().endsWith(`#/emulator/${emulator.entry.id}/web/a_to_b/loss`), page.url());
  await page.reload();
  await page.getByRole('region', { name: 'Loss, settings' }).waitFor();
  await page.goBack();
  await page.getByRole('region', { name: /^Laws of/ }).waitFor({ state: 'detached' });
  site.quiet();
});

test('staged changes are named, survive a reload, and come on top of what another client has changed', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const staged = page.getByRole('region', { name: 'Staged changes' });
  const editor = await openLaw(page, /^Loss/);
  await editor.getByLabel('law').selectOption('percentage');
  await staged.getByText('voice, A→B: loss').waitFor();
  for (const name of ['one', 'two']) {
    await page.getByRole('button', { name: '+ Flow' }).click();
    await page.getByRole('dialog', { name: /Flow/ }).getByLabel('Name', { exact: true }).fill(name);
    await page.getByRole('button', { name: 'Done' }).click();
  }
  await staged.getByText('2 flows added').waitFor();
  const added = page.getByRole('region', { name: 'Laws of two' });
  await added.getByText('not applied').waitFor();
  assert.equal(await added.getByText('running').count(), 0, 'a flow that is not applied is said to run');
  assert.equal(emulator.version, 0);
  await page.goto('about:blank');
  site.mock.configure(emulator.entry.id, { ...emulator.configuration, flow: [...emulator.configuration.flow, { name: 'theirs' }] }, '192.0.2.55');
  await page.goto(`${site.address}/#/emulator/${emulator.entry.id}`);
  await staged.getByText('2 flows added').waitFor();
  await staged.getByText('voice, A→B: loss').waitFor();
  await page.getByRole('link', { name: 'theirs', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Applied: all flows changed together.').waitFor();
  assert.deepEqual(emulator.configuration.flow.map((flow) => flow.name).sort(), ['one', 'theirs', 'two', 'voice']);
  assert.deepEqual(emulator.configuration.flow[0].a_to_b, { loss: { percentage: 1 } });
  await page.reload();
  await page.getByText('Changes are staged here').waitFor();
  site.quiet();
});

test('a form with a refused filter stays open, at the field', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice` });
  await page.getByRole('button', { name: 'Edit voice' }).click();
  const dialog = page.getByRole('dialog', { name: /Flow/ });
  const port = dialog.getByLabel('Destination port', { exact: true }).first();
  await port.fill('http');
  await page.getByRole('button', { name: 'Done' }).click();
  await dialog.getByText('http; accepted: ports').waitFor();
  await comes(() => port.evaluate((field) => field === document.activeElement), true);
  await port.fill('80');
  await page.getByRole('button', { name: 'Done' }).click();
  await dialog.waitFor({ state: 'detached' });
  site.quiet();
});

test('presets show their laws before one is chosen, and lanes show where laws are from', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice` });
  await page.getByRole('button', { name: /^Preset/ }).click();
  const row = page.getByRole('dialog', { name: 'Presets' }).getByRole('row', { name: /^dsl/ });
  await row.getByText('rate 256k, delay 5ms').waitFor();
  await row.getByText('rate 2M, delay 5ms').waitFor();
  await row.getByRole('button').click();
  const card = lane(page, 'From B to A').getByRole('button', { name: /^Rate/ });
  await card.getByText('rate 2 Mbit/s').waitFor();
  await card.getByText('preset dsl').waitFor();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Applied: all flows changed together.').waitFor();
  assert.equal(emulator.configuration.flow[0].profile, 'dsl');
  site.quiet();
});

test('a preview starts from the flow’s packets and says where the outcome differs from the law', options, async () => {
  site.mock.packetsPerSecond = 400;
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const bodies = [];
  page.on('request', (request) => request.url().endsWith('/laws/preview') && bodies.push(request.postDataJSON()));
  const editor = await openLaw(page, /Delay and jitter/);
  const preview = page.getByRole('region', { name: 'Preview' });
  await preview.getByText('at the flow’s rate and size').waitFor();
  await editor.getByLabel('law').selectOption('normal');
  await editor.getByLabel('deviation').fill('8ms');
  await preview.getByText(/8\.000 ms asked, 3\.360 ms delivered/).waitFor();
  await preview.getByRole('group', { name: 'Histogram of delay' }).waitFor();
  const { interval_seconds, size_bytes } = bodies.at(-1);
  assert.equal(size_bytes, 1000);
  assert.ok(Math.abs(1 / interval_seconds - 400) < 60, `${interval_seconds}`);
  await editor.getByLabel('law').selectOption('constant');
  await preview.getByText('delivered').waitFor({ state: 'detached' });
  site.mock.packetsPerSecond = 1000;
  site.quiet();
});

test('a flow’s loss, rate and delay are shown over time, with what is asked for', options, async () => {
  const emulator = site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: { schema: 'weir.impair/1', flow: [{ name: 'voice', filter: {}, a_to_b: { loss: { percentage: 10 }, delay: { constant: '30ms' } } }] } });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice` });
  const card = page.getByRole('region', { name: 'Laws of voice' });
  for (const name of ['Loss', 'Rate', 'Delay']) await card.getByRole('group', { name, exact: true }).waitFor();
  const delay = card.getByRole('figure').filter({ hasText: 'Mean of the packets' });
  await delay.locator('summary').click();
  await delay.getByText('asked, A→B: 30.00 ms').waitFor();
  await delay.getByRole('row', { name: /^A→B/ }).getByText('30.00 ms').first().waitFor();
  const loss = card.getByRole('figure').filter({ hasText: 'Lost by law' });
  await loss.locator('summary').click();
  await loss.getByText('asked, A→B: 10.00 %').waitFor();
  await loss.getByRole('row', { name: /^A→B/ }).getByText(/^(9|10)\.\d\d %$/).first().waitFor();
  site.quiet();
});

test('a configuration is opened from a file and saved as one', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  await page.getByRole('link', { name: 'voice', exact: true }).waitFor();
  const file = (name, text) => ({ name, mimeType: 'application/toml', buffer: Buffer.from(text) });
  await page.getByLabel('Open file').setInputFiles(file('broken.toml', 'flow = ['));
  await page.getByText(/^broken\.toml: /).waitFor();
  await page.getByRole('region', { name: 'Notices' }).getByRole('button').click();
  const flow = [{ name: 'voice', filter: { protocol: 'udp' } }, { name: 'video', b_to_a: { loss: { percentage: 2 } } }];
  await page.getByLabel('Open file').setInputFiles(file('lab.toml', JSON.stringify({ schema: 'weir.impair/1', flow })));
  await page.getByRole('link', { name: 'video', exact: true }).waitFor();
  assert.equal(emulator.version, 0, 'a file was applied before Apply');
  const started = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save file' }).click();
  const saved = await started;
  assert.match(saved.suggestedFilename(), /\.toml$/);
  assert.match(readFileSync(await saved.path(), 'utf8'), /"name":"video"/);
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Applied: all flows changed together.').waitFor();
  assert.deepEqual(emulator.configuration.flow, flow);
  site.quiet();
});

test('a flow of a further hop says which, in the list and on its card', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const flow = [{ name: 'access' }, { name: 'backbone', hop: 2, a_to_b: { delay: { constant: '15ms' } } }];
  const text = JSON.stringify({ schema: 'weir.impair/1', flow });
  await page.getByLabel('Open file').setInputFiles({ name: 'lab.toml', mimeType: 'application/toml', buffer: Buffer.from(text) });
  await page.getByRole('row', { name: /backbone/ }).getByText('hop 2', { exact: true }).waitFor();
  assert.equal(await page.getByText('hop 1', { exact: true }).count(), 0);
  await page.getByRole('link', { name: 'backbone', exact: true }).click();
  await page.getByRole('region', { name: 'Laws of backbone' }).getByText('hop 2', { exact: true }).waitFor();
  site.quiet();
});

test('alarms are grouped, acknowledged and cleared', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  await page.getByRole('tab', { name: 'Interfaces' }).waitFor();
  await heard(emulator);
  const late = (at_seconds, active) => site.mock.alarm(emulator.entry.id, { kind: 'deadline-late', object: 'forward', at_seconds, active, text: `late at ${at_seconds}` });
  late(1, false);
  late(2, false);
  late(3, true);
  site.mock.alarm(emulator.entry.id, { kind: 'link-down', object: 'veth-b', at_seconds: 2, active: false, text: 'no carrier' });
  await page.getByRole('status').getByText('late at 3').waitFor();
  await page.getByRole('tab', { name: /Alarms/ }).click();
  const table = page.getByRole('table', { name: 'Alarms' });
  const row = table.getByRole('row', { name: /deadline-late/ });
  await row.getByText('active').waitFor();
  assert.equal(await row.getByRole('cell').nth(2).innerText(), '3');
  assert.match(await row.getByRole('cell').nth(4).innerText(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
  await table.getByRole('button', { name: 'Clear link-down, veth-b' }).click();
  await table.getByRole('row', { name: /link-down/ }).waitFor({ state: 'detached' });
  await page.getByText('Removed 1 alarm of kind link-down on veth-b.').waitFor();
  await row.getByRole('button', { name: /^Acknowledge/ }).click();
  await page.getByText('Acknowledged 3 alarms of kind deadline-late on forward.').waitFor();
  await row.getByText('acknowledged').waitFor();
  await page.getByRole('status').getByText('late at 3').waitFor({ state: 'detached' });
  // Raised again, it calls again. The emulator has the state: it stays after a reload, and other clients see it.
  await page.reload();
  await page.getByRole('tab', { name: /Alarms/ }).click();
  await row.getByText('acknowledged').waitFor();
  await heard(emulator);
  late(4, true);
  await page.getByRole('status').getByText('late at 4').waitFor();
  for (const alarm of emulator.report.alarms) alarm.acknowledged_at_seconds ??= 5;
  await row.getByText('acknowledged').waitFor();
  await page.getByText('Thresholds', { exact: true }).click();
  const threshold = page.getByLabel(/^Late packets above/);
  assert.equal(await threshold.inputValue(), '0');
  await threshold.fill('7');
  await threshold.blur();
  await comes(() => emulator.report.alarm_thresholds.late_packets, 7, 'the threshold was not sent');
  assert.equal(emulator.report.alarm_thresholds.cpu_percentage, 90);
  site.quiet();
});

test('on a narrow screen flows are cards with their actions', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}`, width: 390, height: 844 });
  const card = page.getByRole('region', { name: 'Flows' }).getByRole('listitem').filter({ hasText: 'voice' });
  await card.getByRole('link', { name: /Delay/ }).first().waitFor();
  await card.getByRole('button', { name: 'Bypass voice' }).click();
  await card.getByText('bypassed').waitFor();
  await card.getByRole('button', { name: 'Remove voice' }).click();
  await page.getByText('voice removed').waitFor();
  assert.equal(await page.getByRole('table', { name: /^Flows/ }).count(), 0);
  site.quiet();
});

test('an alarm is in sight wherever one looks, and listed', options, async () => {
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  await page.getByRole('tab', { name: 'Interfaces' }).waitFor();
  await heard(emulator);
  site.mock.alarm(emulator.entry.id, { kind: 'link-down', object: 'veth-b', at_seconds: 1.5, active: true, text: 'veth-b has no carrier' });
  await page.getByRole('status').getByText('veth-b has no carrier').waitFor();
  await page.getByRole('tab', { name: /Alarms/ }).click();
  await page.getByRole('row', { name: /link-down/ }).getByText('active').waitFor();
  // The tab stays in the address while a flow is opened.
  const address = () => new URL(page.url()).hash;
  await comes(address, `#/emulator/${emulator.entry.id}?tab=alarms`);
  await page.getByRole('link', { name: 'other', exact: true }).click();
  await comes(address, `#/emulator/${emulator.entry.id}/other?tab=alarms`);
  await page.reload();
  await page.getByRole('row', { name: /link-down/ }).waitFor();
  site.quiet();
});

test('a law, a stage and counters that the schema gains are there without the page knowing them', options, async () => {
  const schema = JSON.parse(readFileSync(new URL('../../../docs/schemas/weir.impair-1.schema.json', import.meta.url), 'utf8'));
  const { $defs } = schema;
  $defs.Rayleigh = { type: 'object', description: 'A Rayleigh delay.', properties: { scale: { $ref: '#/$defs/Span', description: 'Scale.' }, shape: { type: 'number', description: 'Shape.' } }, required: ['scale', 'shape'] };
  $defs.Delay.properties.rayleigh = { anyOf: [{ $ref: '#/$defs/Rayleigh' }, { type: 'null' }], description: 'Heavy tail.' };
  $defs.Delay['x-one-of'].push('rayleigh');
  $defs.Stage.oneOf.push({ const: 'pause', description: 'Pause frames.', type: 'string' });
  $defs.Pause = { type: 'object', description: 'Pauses.', properties: { every: { $ref: '#/$defs/Span', description: 'How often.' } } };
  $defs.Laws.properties.pause = { anyOf: [{ $ref: '#/$defs/Pause' }, { type: 'null' }], description: 'Pauses.', 'x-stage': 'pause' };
  $defs.EmulatorCounters.properties.paused_packets = { type: 'integer', description: 'Packets that waited for a pause to end.', 'x-stage': 'pause' };
  site.mock.counted = { paused_packets: 5, strayed_packets: 7 };
  site.mock.schema = (name) => (name === 'impair' ? schema : undefined);
  const emulator = fresh();
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}` });
  const editor = await openLaw(page, /Delay and jitter/);
  await editor.getByLabel('law').selectOption('rayleigh');
  await editor.getByLabel('shape').fill('2.5');
  await lane(page, 'From A to B').getByText('Rayleigh (scale 40ms, shape 2.5)').waitFor();
  await lane(page, 'From B to A').getByRole('button', { name: /Pause frames/ }).click();
  await page.getByRole('region', { name: /Pause frames, settings/ }).getByLabel('every').fill('2s');
  await lane(page, 'From B to A').getByText('every 2s').waitFor();
  const card = lane(page, 'From A to B').getByRole('button', { name: /Pause frames/ });
  await card.getByTitle('Packets that waited for a pause to end.').getByText('paused').waitFor();
  // Counters without a stage are at the end of the row.
  await lane(page, 'From A to B').getByText('7 pkt strayed').waitFor();
  assert.equal(await card.getByText('strayed').count(), 0);
  delete site.mock.schema;
  delete site.mock.counted;
  site.quiet();
});

test('figures that come late are said to be old', options, async () => {
  // Emulators that other tests left would send fresh figures in between.
  site.mock.emulators.clear();
  const page = await site.page();
  const status = page.getByRole('status').filter({ hasText: /live|old/ });
  await status.getByText('live').waitFor();
  // The page's clock stands still, ahead of the greeting: an event's age is what the test says, however slow this machine is.
  const now = Date.now() + 60_000;
  await page.clock.setFixedTime(now);
  const sample = (age) => site.mock.send('sample', { kind: 'tests', id: 'none', sequence: 1, skipped: 0, at: new Date(now - age).toISOString() });
  sample(0);
  sample(5000);
  await status.getByText('5 s old').waitFor();
  sample(0);
  await status.getByText('live').waitFor();
  site.quiet();
});

test('an emulator with a keepalive timeout is kept going by its own view alone', options, async () => {
  for (const one of [...site.mock.emulators.keys()]) site.mock.emulators.delete(one);
  const watched = fresh();
  watched.entry.keepalive_timeout_seconds = 3;
  const free = fresh();
  const asked = async (objects) => {
    await comes(() => site.mock.sampled.toSorted(), objects.toSorted());
  };
  const name = (one) => `emulators:${one.entry.id}`;
  const page = await site.page({ hash: '#/generator' });
  await asked(['tests', name(free)]);
  await page.evaluate((id) => (location.hash = `#/emulator/${id}`), watched.entry.id);
  await page.getByText('keepalive 3 s').waitFor();
  await asked(['tests', name(free), name(watched)]);
  // Its counters come.
  await page.getByText(/running [1-9]/).first().waitFor();
  await page.evaluate(() => (location.hash = '#/runs'));
  await asked(['tests', name(free)]);
  assert.equal(await page.getByText('No connection').count(), 0);
  site.quiet();
});
