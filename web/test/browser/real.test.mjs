// The page against the program itself: WEIR names it (built after `make web`, so that the page is in it). A plan is built and
// run over loopback, watched, stopped, looked into, compared; an emulator in the middle of a lab is given a law whose preview the
// engine made, counts as it says, writes a packet trace, and tells an alarm; the demo is run on the virtual clock.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { cells, CHROMIUM, comes, frames, lacking, launch } from './harness.mjs';

const program = process.env.WEIR;
const skip = program === undefined ? 'SKIPPED: WEIR names no program' : lacking();
const options = { skip, timeout: 120_000 };
const LAB = `page${process.pid}`;
let server;
let site;
let directory;
let port;

before(async () => {
  if (skip) return;
  directory = mkdtempSync(join(tmpdir(), 'weir-page-'));
  port = 20_000 + (process.pid % 20_000);
  const env = { ...process.env, WEIR_DATA_DIR: join(directory, 'data'), WEIR_CONFIG_DIR: join(directory, 'config'), WEIR_RUNTIME_DIR: join(directory, 'run') };
  server = spawn(program, ['serve', '--ui=127.0.0.1:0', '-B', '127.0.0.1', '-p', String(port)], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  const address = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no page within 20 s: ${said}`)), 20_000);
    for (const stream of [server.stdout, server.stderr]) {
      stream.on('data', (chunk) => {
        said += chunk;
        const found = /(http:\/\/127\.0\.0\.1:\d+)\//.exec(said)?.[1];
        if (found === undefined) return;
        clearTimeout(timer);
        resolve(found);
      });
    }
    server.on('exit', (code) => reject(new Error(`ended with ${code}: ${said}`)));
  });
  site = await launch(process.env.PAGE_AT ? process.env.PAGE_AT.replace('SERVER', address) : address);
  site.api = address;
});
afterEach(() => site?.clear());
after(async () => {
  await site?.close();
  if (server !== undefined && server.exitCode === null) {
    const gone = new Promise((resolve) => server.on('exit', resolve));
    server.kill('SIGTERM');
    await gone;
  }
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
});

const api = async (method, path, body, headers = {}) => {
  const response = await fetch(`${site.api}/api/v1${path}`, { method, headers: { ...(body && { 'content-type': 'application/json' }), ...headers }, ...(body && { body: JSON.stringify(body) }) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
};

async function run(page, rate) {
  await page.getByRole('button', { name: 'Edit udp' }).click();
  const dialog = page.getByRole('dialog', { name: /Connection udp/ });
  await dialog.getByLabel('Rate', { exact: true }).fill(rate);
  await dialog.getByLabel('Duration', { exact: true }).fill('2s');
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: '▶ Start all' }).click();
  const table = page.getByRole('table', { name: 'Connections' });
  await table.getByText('running').waitFor();
  await table.getByText('bit/s').first().waitFor();
  await table.getByText('finished').waitFor({ timeout: 30_000 });
}

test('a plan is built, run, watched, stopped, kept and compared', options, async () => {
  const page = await site.page();
  // The page shows the port to use.
  await page.getByText(`this server listens on another port: 127.0.0.1:${port}`).waitFor();
  await page.getByLabel('Host where').fill(`127.0.0.1:${port}`);
  await page.getByText('UDP 10 Mbit/s').click();
  await page.getByRole('button', { name: '▶ Start' }).click();
  const table = page.getByRole('table', { name: 'Connections' });
  await table.getByText('running').waitFor();
  // A figure, not what was asked: one that is stopped before it has measured anything has failed.
  await table.locator('td.num:not(.asked)', { hasText: 'bit/s' }).first().waitFor();
  await page.getByRole('button', { name: '■ Stop all' }).click();
  await table.getByText('finished').waitFor({ timeout: 30_000 });

  await run(page, '5M');
  await run(page, '8M');
  await page.getByRole('link', { name: 'Open result' }).click();
  await page.getByRole('heading', { name: 'Flows' }).waitFor();
  await page.getByRole('row', { name: /^udp/ }).getByText('Mbit/s').first().waitFor();
  await page.getByText('127.0.0.1').first().waitFor();
  // Hardware and kernel settings are those of the record.
  const { local } = await api('GET', `/runs/${new URL(page.url()).hash.split('/').at(-1)}`);
  await page.getByText('Provenance').click();
  const facts = Object.fromEntries((await cells(page.getByRole('table', { name: 'Hosts' }))).map(([name, here]) => [name, here]));
  const settings = Object.entries(local.sysctls).map(([name, value]) => `${name} = ${value.replace(/\s+/g, ' ')}`);
  assert.ok(settings.length > 0);
  assert.deepEqual(facts['Kernel settings'].split('; '), settings);
  assert.equal(facts['Host'], local.host);
  assert.match(facts['Processor'], new RegExp(`, ${local.cpu.cores} usable$`));
  assert.ok(local.kernel !== '' && facts['System'].includes(local.kernel), facts['System']);

  await page.getByRole('link', { name: '← Runs' }).click();
  const runs = page.getByRole('table', { name: 'Runs' });
  await runs.getByRole('checkbox').nth(2).waitFor();
  await comes(() => runs.getByRole('checkbox').count(), 3);
  await runs.getByRole('checkbox').nth(0).check();
  await runs.getByRole('checkbox').nth(1).check();
  await page.getByRole('button', { name: 'Compare 2' }).click();
  await page.getByText('Differences of the set-up').waitFor();
  await page.getByText('plan.connection[0].rate').first().waitFor();
  site.quiet();
});

test('files of other tools are imported on the page', options, async () => {
  const page = await site.page({ hash: '#/runs', tolerate: (words) => words.includes('422') });
  const files = new URL('../../../crates/exchange/tests/files/', import.meta.url);
  const give = (name) => page.getByLabel('Import a file').setInputFiles({ name, mimeType: '', buffer: readFileSync(new URL(name, files)) });
  const at = () => new URL(page.url()).hash;
  for (const [name, tool] of [['iperf3/udp_loss.json', 'iperf3'], ['netperf/omni_udp.csv', 'netperf'], ['nuttcp/tcp_interval.txt', 'nuttcp'], ['itgdec/receiver.txt', 'd-itg'], ['ditg/receiver.log', 'd-itg'], ['flent/rrul.flent.gz', 'flent']]) {
    await give(name);
    await comes(() => at().startsWith('#/runs/'), true);
    await page.getByRole('heading', { name: 'Flows' }).waitFor();
    const { labels } = await api('GET', `/runs/${at().split('/').at(-1)}`);
    assert.equal(labels.imported, tool, name);
    await page.getByRole('link', { name: '← Runs' }).click();
    await comes(at, '#/runs');
  }
  await page.getByLabel('Import a file').setInputFiles({ name: 'notes.txt', mimeType: '', buffer: Buffer.from('hello') });
  await page.getByRole('alert').getByText(/notes.txt: .*nuttcp/).waitFor();
  site.quiet();
});

/** A figure as the page writes it, in SI units, and half a unit of its last digit. */
function read(text) {
  const [, number, unit] = /^([\d.\u202f]+)\s*(.*)$/.exec(text.trim()) ?? [];
  if (number === undefined) return undefined;
  const digits = number.replaceAll('\u202f', '');
  const factor = { '%': 0.01, ms: 1e-3, µs: 1e-6, ns: 1e-9, s: 1 }[unit] ?? { k: 1e3, M: 1e6, G: 1e9 }[unit[0]] ?? 1;
  return { value: Number(digits) * factor, error: (0.5 * 10 ** -(digits.split('.')[1]?.length ?? 0) + 1e-9) * factor };
}

/** Whether a figure as the page writes it is this value. */
function is(shown, wanted) {
  if (wanted === undefined || wanted === null) return shown.trim() === '–';
  const found = read(shown);
  return found !== undefined && Math.abs(found.value - wanted) <= found.error;
}

function same(shown, wanted, words) {
  assert.ok(is(shown, wanted), `${words}: shown "${shown}", the record has ${wanted ?? 'none'}`);
}

/** A page whose plan has these connections. */
async function planned(connection, interval = '250ms') {
  const page = await site.page();
  await page.evaluate(([plan, host]) => {
    localStorage.setItem('weir.draft', JSON.stringify(plan));
    localStorage.setItem('weir.host', host);
    localStorage.setItem('weir.columns', JSON.stringify(['state', 'transport', 'throughput', 'average', 'received', 'sent', 'packets', 'lost', 'loss', 'jitter', 'delay', 'round_trip']));
  }, [{ schema: 'weir.plan/1', interval, connection }, `127.0.0.1:${port}`]);
  await page.reload();
  await page.getByLabel('Host', { exact: true }).fill(`127.0.0.1:${port}`);
  return page;
}

const lines = (page) => page.getByRole('table', { name: 'Connections' });
const lineOf = (page, name) => lines(page).getByRole('row', { name: new RegExp(`^${name}\\b`) });
/** The figures of a line by the headings of their columns. */
const shownOf = (page, name) =>
  lineOf(page, name).evaluate((row) => {
    const heads = [...row.closest('table').querySelectorAll('thead th')].map((head) => head.textContent.trim());
    return Object.fromEntries([...row.children].map((cell, index) => [heads[index], [...cell.querySelectorAll('span')].map((part) => part.textContent).join(' ')]));
  });
const latestTest = async () => (await api('GET', '/tests')).tests[0];

/** The record of the newest test, once the page shows it. */
async function finished(page, count) {
  await comes(() => lines(page).locator('td.state').getByText('finished', { exact: true }).count(), count);
  // A flow that sends nothing more has finished; its test ends when all is accounted for.
  await comes(async () => (await latestTest()).state, 'ended');
  const test = await latestTest();
  assert.deepEqual([...new Set(Object.values(test.flow_states))], ['finished']);
  const record = await api('GET', `/tests/${test.id}/record`);
  assert.deepEqual(await api('GET', `/runs/${record.id}`).then((run) => run.flows), record.flows);
  await page.getByLabel('Total').getByText(`${record.seconds.toFixed(1)} s`).waitFor();
  // The last live figures may have the same time: those of the record take their place.
  for (const [label, side] of [['To the host', 'forward'], ['From the host', 'reverse']]) {
    const shown = page.getByLabel('Total').locator('div', { hasText: label }).locator('dd');
    const wanted = record.total[side]?.receiver?.bits_per_second;
    if (wanted === undefined || (await shown.count()) !== 1) continue;
    await comes(async () => is((await shown.innerText()).replace(/\s+/g, ' '), wanted), true, `${label}: the record has ${wanted}`);
  }
  return record;
}

test('every figure of a run that has ended is the record’s', options, async () => {
  const page = await planned([
    { name: 'datagrams', transport: 'udp', rate: '5M', payload: '1000', duration: '1300ms' },
    { name: 'back', transport: 'udp', direction: 'reverse', rate: '2M', duration: '2300ms' },
    { name: 'stream', transport: 'tcp', rate: '20M', duration: '1800ms' },
  ]);
  await page.getByRole('button', { name: '▶ Start all' }).click();
  // The first one has finished while the others run, here and in the API.
  await lineOf(page, 'datagrams').getByText('finished', { exact: true }).waitFor();
  assert.equal((await latestTest()).flow_states.datagrams, 'finished');
  const record = await finished(page, 3);
  await comes(async () => lines(page).locator('td.num').getByText('bit/s').count().then((count) => count > 0), true);
  for (const flow of record.flows) {
    // The line shows its last interval until the page has the record.
    await comes(async () => is((await shownOf(page, flow.name))['Throughput'], flow.receiver.bits_per_second), true, flow.name);
    const shown = await shownOf(page, flow.name);
    const words = (figure) => `${flow.name}, ${figure}`;
    same(shown['Throughput'], flow.receiver.bits_per_second, words('throughput'));
    same(shown['Sent'], flow.sender.bits_per_second, words('sent'));
    same(shown['Packets'], flow.receiver.packets_per_second, words('packets'));
    same(shown['Average'], flow.receiver.bits_per_second, words('average'));
    assert.equal(shown['Lost'], flow.receiver.lost_packets === undefined ? '–' : String(flow.receiver.lost_packets), words('lost'));
    same(shown['Loss'], flow.receiver.loss_ratio, words('loss'));
    same(shown['Jitter'], flow.receiver.jitter_seconds, words('jitter'));
    same(shown['Delay'], flow.receiver.one_way_delay?.mean_seconds, words('delay'));
    same(shown['Round trip'], flow.tcp?.rtt_seconds, words('round trip'));
  }
  const totals = await page.getByLabel('Total').locator('div').evaluateAll((all) => Object.fromEntries(all.map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').innerText.replace(/\s+/g, ' ')])));
  const { forward, reverse } = record.total;
  same(totals['To the host'], forward.receiver.bits_per_second, 'total, forward');
  same(totals['From the host'], reverse.receiver.bits_per_second, 'total, reverse');
  same(totals['Packets'], forward.receiver.packets_per_second + reverse.receiver.packets_per_second, 'total, packets');
  same(totals['Time'], record.seconds, 'time');

  // Curves: each interval has its value, as the record has it. The pointer is put on each third one.
  const chart = page.getByRole('group', { name: 'Throughput over time' });
  const grid = await chart.locator('path[stroke="var(--line)"]').getAttribute('d');
  const [, left, right] = /^M([\d.]+) [\d.]+L([\d.]+) /.exec(grid).map(Number);
  const box = await chart.boundingBox();
  const end = record.intervals.at(-1).end_seconds;
  const begin = record.intervals[0].start_seconds;
  let compared = 0;
  for (let index = 0; index < record.intervals.length; index += 3) {
    const interval = record.intervals[index];
    const middle = (interval.start_seconds + interval.end_seconds) / 2;
    await page.mouse.move(box.x + left + ((right - left) * (middle - begin)) / (end - begin), box.y + box.height / 2);
    const tip = () => chart.locator('.tip').evaluate((node) => ({ at: node.querySelector('b').textContent, ...Object.fromEntries([...node.querySelectorAll('dl > div')].map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').textContent])) }));
    await comes(async () => Number.parseFloat((await tip()).at.split(' – ')[1]).toFixed(3), interval.end_seconds.toFixed(3));
    const at = await tip();
    for (const flow of record.flows) {
      const count = interval.flows.find((one) => one.id === flow.id)?.receiver;
      same(at[flow.name], count?.bits_per_second, `${flow.name} at ${interval.end_seconds} s`);
      compared += 1;
    }
  }
  assert.ok(compared >= 9, `${compared} values`);
  site.quiet();
});

test('a reload while a test runs keeps its curves, which are the record’s', options, async () => {
  const page = await planned([
    { name: 'steady', transport: 'udp', rate: '400pps', payload: '500', duration: '7s' },
    { name: 'back', transport: 'udp', direction: 'reverse', rate: '150pps', payload: '700', duration: '7s' },
  ]);
  await page.getByRole('button', { name: '▶ Start all' }).click();
  const time = async () => Number.parseFloat(await page.getByLabel('Total').locator('div', { hasText: 'Time' }).locator('dd').innerText());
  await comes(async () => (await time()) >= 2, true);
  const reloaded = await time();
  const history = page.waitForResponse((response) => /\/tests\/[^/]+\/history/.test(response.url()));
  await page.reload();
  assert.equal((await history).status(), 200);
  const chart = page.getByRole('group', { name: 'Throughput over time' });
  await chart.waitFor();
  /** Values of all series by the end of their interval, while the test runs. */
  const seen = new Map();
  const before = Array.from({ length: Math.floor(reloaded / 0.25) }, (_, index) => (index + 1) * 0.25);
  await chart.focus();
  // The chart grows meanwhile: one step may skip a value.
  for (const limit = Date.now() + 4000; Date.now() < limit && !before.every((end) => seen.has(end)); ) {
    await page.keyboard.press('Home');
    for (let step = 0; step <= before.length; step += 1) {
      const { at, values } = await chart.locator('.tip').evaluate((node) => ({ at: node.querySelector('b').textContent, values: Object.fromEntries([...node.querySelectorAll('dl > div')].map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').textContent])) }));
      seen.set(Math.round(Number.parseFloat(at.split(' – ')[1]) * 1000) / 1000, values);
      await page.keyboard.press('ArrowRight');
    }
  }
  assert.deepEqual(before.filter((end) => !seen.has(end)), [], 'intervals that the reload has dropped');
  assert.equal((await latestTest()).state, 'running');
  const record = await finished(page, 2);
  for (const [end, values] of seen) {
    const interval = record.intervals.find((one) => Math.abs(one.end_seconds - end) < 0.001);
    assert.ok(interval !== undefined, `the record has no interval that ends at ${end} s`);
    for (const flow of record.flows) same(values[flow.name], interval.flows.find((one) => one.id === flow.id)?.receiver?.bits_per_second, `${flow.name} at ${end} s`);
  }
  site.quiet();
});

test('a slow flow is never silent, and its curve has no gap', options, async () => {
  const page = await planned([{ name: 'voice', transport: 'udp', payload: '172', rate: '50pps', tos: 184, duration: '7s' }]);
  await page.getByRole('button', { name: '▶ Start all' }).click();
  const state = lineOf(page, 'voice').locator('td.state');
  const seen = new Set();
  await lineOf(page, 'voice').getByText('bit/s').first().waitFor();
  await comes(async () => (seen.add(await state.innerText()), Number.parseFloat(await page.getByLabel('Total').locator('div', { hasText: 'Time' }).locator('dd').innerText()) >= 5.5), true);
  assert.deepEqual([...seen], ['running']);
  // Figures that live, behind the time at which they were withheld once.
  const { latest } = await latestTest();
  assert.ok(latest.flows[0].receiver, JSON.stringify(latest));
  const record = await finished(page, 1);
  assert.ok(record.intervals.every((interval) => interval.flows[0].receiver !== undefined));
  site.quiet();
});

test('a line shows its own test, not one of the API with the same name', options, async () => {
  const page = await planned([{ name: 'same', transport: 'udp', rate: '50pps', payload: '500', duration: '6s' }]);
  await page.getByRole('button', { name: '▶ Start all' }).click();
  await lineOf(page, 'same').locator('td.num:not(.asked)', { hasText: 'pkt/s' }).waitFor();
  const mine = (await latestTest()).id;
  const other = await api('POST', '/tests', { host: `127.0.0.1:${port}`, plan: { schema: 'weir.plan/1', interval: '250ms', connection: [{ name: 'same', transport: 'udp', rate: '500pps', payload: '500', duration: '3s' }] } });
  await comes(async () => (await api('GET', `/tests/${other.id}`)).state, 'running');
  const packets = async () => read(await lineOf(page, 'same').locator('td.num:not(.asked)', { hasText: 'pkt/s' }).innerText().then((text) => text.replace(/\s+/g, ' ')))?.value;
  while ((await api('GET', `/tests/${other.id}`)).state === 'running') {
    const now = await packets();
    assert.ok(now === undefined || now < 150, `${now} packets/s in the line of 50`);
    await frames(page);
  }
  await comes(() => lines(page).locator('td.state').getByText('finished', { exact: true }).count(), 1);
  await comes(async () => (await api('GET', `/tests/${mine}`)).state, 'ended');
  const record = await api('GET', `/tests/${mine}/record`);
  await comes(async () => Math.abs((await packets()) - record.flows[0].receiver.packets_per_second) < 0.01, true);
  site.quiet();
});

test('the program’s own refusals are shown next to the fields', options, async () => {
  const page = await site.page();
  await page.getByText('UDP 10 Mbit/s').click();
  await page.getByLabel('Host where').fill(`127.0.0.1:${port}`);
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByRole('button', { name: 'Edit udp' }).click();
  const dialog = page.getByRole('dialog', { name: /Connection udp/ });
  for (const [field, wrong] of [['Rate', 'fast'], ['Payload size', '70000']]) {
    await dialog.getByLabel(field, { exact: true }).fill(wrong);
    const words = dialog.getByRole('alert');
    await words.waitFor();
    assert.match(await words.innerText(), new RegExp(`${wrong}|accepted`));
    await comes(() => dialog.getByLabel(field, { exact: true }).getAttribute('aria-invalid'), 'true');
    await dialog.getByLabel(field, { exact: true }).fill('');
    await words.waitFor({ state: 'detached' });
  }
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: '■ Stop all' }).click();
  site.quiet();
});

test('an emulator in a lab: previewed, applied, counted as asked', options, async (t) => {
  if (process.getuid?.() !== 0) return t.skip('SKIPPED: labs and emulators need root here');
  await api('POST', '/labs', { name: LAB, middle: true });
  try {
    const ends = spawnSync(program, ['lab', 'exec', '--lab', LAB, 'm', '--', 'ls', '/sys/class/net'], { env: { ...process.env, WEIR_RUNTIME_DIR: join(directory, 'run') }, encoding: 'utf8' }).stdout.split(/\s+/).filter((one) => one !== '' && one !== 'lo');
    assert.equal(ends.length, 2, `interfaces in the middle: ${ends.join(' ')}`);
    const page = await site.page({ hash: '#/emulator' });
    await page.getByLabel('Where').selectOption(LAB);
    await page.getByLabel('A, the client’s side').fill(ends[0]);
    await page.getByLabel('B, the server’s side').fill(ends[1]);
    await page.getByRole('checkbox', { name: /^Packet trace/ }).check();
    await page.getByRole('button', { name: '▶ Start' }).click();
    await page.getByRole('group', { name: 'From A to B' }).getByRole('button', { name: /Delay and jitter/ }).click();
    const editor = page.getByRole('region', { name: /, settings/ });
    await editor.getByLabel('law').selectOption('constant');
    await editor.getByLabel('constant').fill('30ms');
    await page.getByRole('region', { name: 'Preview' }).getByText('30.00 ms').first().waitFor();
    await page.getByRole('group', { name: 'From A to B' }).getByRole('button', { name: /^Loss/ }).click();
    await page.getByRole('region', { name: /, settings/ }).getByLabel('law').selectOption('every_nth');
    await page.getByRole('region', { name: /, settings/ }).getByLabel('Every n-th packet').fill('4');
    await page.getByRole('region', { name: 'Preview' }).getByText('25.000 %').waitFor();
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByText('Applied: all flows changed together.').waitFor();
    // A hundred pings through it: every fourth packet of one direction is lost, whatever else crosses the link.
    const host = (await api('GET', '/labs')).labs.find((lab) => lab.name === LAB).hosts.find((one) => one.name === 'b');
    const within = (name, ...words) => spawnSync(program, ['lab', 'exec', '--lab', LAB, name, '--', ...words], { env: { ...process.env, WEIR_RUNTIME_DIR: join(directory, 'run') }, encoding: 'utf8' });
    within('a', 'ping', '-q', '-c', '60', '-i', '0.02', host.ipv4);
    // The event of the page's own change is not treated as another client's.
    assert.equal(await page.getByText(/changed this emulator/).count(), 0);
    const lane = page.getByRole('group', { name: 'From A to B' });
    await lane.getByText(/2[3-7]\.\d\d %/).first().waitFor();
    await page.getByRole('tab', { name: 'Asked / measured' }).click();
    const fidelity = page.getByRole('row', { name: /^other A → B/ });
    await fidelity.getByText(/30\.\d+ ms/).first().waitFor();
    // What was asked is compared with what happened since it was: packets from before these laws do not count.
    const flowNow = async () => (await api('GET', `/emulators/${(await api('GET', '/emulators')).emulators[0].id}/counters`)).impairment.flows.find((one) => one.name === 'other' && one.direction === 'forward');
    assert.equal((await flowNow()).current.reason, 'laws');
    await comes(async () => (await fidelity.innerText()).includes(`${((await flowNow()).current.realised.loss_ratio * 100).toFixed(3)} %`), true);
    await page.getByRole('button', { name: 'Reset counters' }).click();
    await comes(async () => (await flowNow()).current.reason, 'reset');
    await fidelity.getByTitle('since the counters were reset').waitFor();
    within('a', 'ping', '-q', '-c', '40', '-i', '0.02', host.ipv4);
    await comes(async () => {
      const { current } = await flowNow();
      const shown = await fidelity.innerText();
      return current.counters.received_packets >= 40 && shown.includes(`${current.counters.received_packets} pkt`) && shown.includes(`${(current.realised.loss_ratio * 100).toFixed(3)} %`);
    }, true);

    // The matrix has the same figures: what these laws ask for, and what came of it.
    const matrix = page.getByRole('table', { name: /^Flows/ });
    const row = matrix.getByRole('row').filter({ has: page.getByRole('link', { name: 'other', exact: true }) });
    assert.equal(await matrix.getByRole('link', { name: /^other, A→B, Loss/ }).innerText(), '25.00 %');
    assert.equal(await matrix.getByRole('link', { name: /^other, A→B, Delay/ }).innerText(), '30.0 ms');
    await comes(async () => (await row.innerText()).includes(`${((await flowNow()).current.realised.loss_ratio * 100).toFixed(2)} %`), true);
    // Saved as a file and opened again, the configuration is the same: nothing is staged.
    const saving = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save file' }).click();
    const toml = readFileSync(await (await saving).path(), 'utf8');
    assert.match(toml, /every_nth/);
    const opened = (text) => page.getByLabel('Open file').setInputFiles({ name: 'lab.toml', mimeType: 'application/toml', buffer: Buffer.from(text) });
    await opened(toml.replace('30ms', '31ms'));
    await page.getByText('other, A→B: delay, not applied').waitFor();
    await opened(toml);
    await page.getByText('Changes are staged here').waitFor();

    // Its verdicts are a file: at least one of 24 bytes for each ping and answer that it saw.
    await page.getByRole('tab', { name: 'Log', exact: true }).click();
    await page.getByText(/Packet trace: [1-9][\d\u202f]* verdicts/).waitFor();
    const started = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download', exact: true }).click();
    const packet_trace = readFileSync(await (await started).path());
    assert.ok(packet_trace.includes('weir.packets/1') && packet_trace.length > 100 * 24, `${packet_trace.length} bytes`);
    // Left out, a flow's packets make it no longer.
    await page.getByRole('button', { name: 'Trace other' }).click();
    await page.getByRole('button', { name: 'Trace other', pressed: false }).waitFor();
    const counted = async () => {
      const report = await api('GET', `/emulators/${(await api('GET', '/emulators')).emulators[0].id}/counters`);
      const received = report.impairment.flows.filter((one) => one.name === 'other').reduce((sum, one) => sum + one.counters.received_packets, 0);
      return { received, records: report.packet_trace.records };
    };
    const before = await counted();
    within('a', 'ping', '-q', '-c', '20', '-i', '0.02', host.ipv4);
    await comes(async () => (await counted()).received >= before.received + 20, true);
    assert.equal((await counted()).records, before.records, 'what is not traced is in the packet trace');
    await comes(async () => /([\d\u202f]+) verdicts/.exec(await page.getByText(/Packet trace: .* verdicts/).innerText())[1].replaceAll('\u202f', ''), String(before.records));

    // The far host's link is taken down: an alarm, wherever one looks.
    within('b', 'ip', 'link', 'set', 'dev', 'eth0', 'down');
    await page.getByRole('status').getByText(/no carrier|down/).waitFor();
    await page.getByRole('tab', { name: /Alarms/ }).click();
    await page.getByRole('row', { name: /link-down/ }).getByText('active').waitFor();
    site.quiet();
    page.on('dialog', (dialog) => void dialog.accept());
    await page.getByRole('button', { name: 'End', exact: true }).click();
    await page.getByText('Start an emulator between').waitFor();
  } finally {
    await api('DELETE', `/labs/${LAB}`);
  }
});

test('the demo on the virtual clock: every row of the program’s own result has its place', options, async () => {
  const page = await site.page({ hash: '#/system' });
  await page.getByRole('tab', { name: 'Demo' }).click();
  await page.getByRole('checkbox', { name: /^Simulated/ }).check();
  await page.getByRole('button', { name: '▶ Run the demo' }).click();
  const table = page.getByRole('table', { name: 'Asked, realised, measured' });
  await table.waitFor({ timeout: 60_000 });
  await page.getByText(/(\d+) of \1 rows passed/).waitFor();
  const { result } = await api('GET', '/demo');
  const rows = async () => table.getByRole('row').allInnerTexts();
  // The packets of a stream are not joined, so only its dispositions have a line.
  const joined = (row) => row.dispositions !== undefined && !(row.dispositions.sent_packets === 0 && row.dispositions.predicted > 0);
  const lines = (row) => row.figures.length + Number(row.dispositions !== undefined) + Number(joined(row));
  await comes(async () => (await rows()).length - 1, result.paths.reduce((sum, row) => sum + lines(row), 0));
  for (const cells of (await rows()).slice(1).map((row) => row.split('\t'))) assert.match(cells.at(-1), /passed/, cells.join(' '));
  // A dash where there is a figure would be a key that the page does not know.
  const text = await table.innerText();
  const none = (figure) => ['asked_', 'realised_', 'measured_'].filter((part) => !Object.keys(figure).some((key) => key.startsWith(part))).length;
  // Packets joined are not realised by a law, and dispositions are not measured.
  const dashes = result.paths.flatMap((row) => [...row.figures.map(none), Number(row.dispositions !== undefined), Number(joined(row))]);
  assert.equal(text.match(/–/g)?.length ?? 0, dashes.reduce((sum, one) => sum + one, 0), text);
  assert.ok(!/undefined|NaN|null/.test(text), text);
  site.quiet();
});

/** Starts the program in a host of a lab and waits for words of its. */
async function start(host, words, wanted) {
  const env = { ...process.env, WEIR_DATA_DIR: join(directory, `data-${host}`), WEIR_RUNTIME_DIR: join(directory, 'run') };
  const child = spawn(program, ['lab', 'exec', '--lab', LAB, host, '--', program, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${words[0]} did not get there in 20 s: ${said}`)), 20_000);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        said += chunk;
        if (!wanted.test(said)) return;
        clearTimeout(timer);
        resolve();
      });
    }
    child.on('exit', (code) => reject(new Error(`${words[0]} ended with ${code}: ${said}`)));
  });
  return async () => {
    if (child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.on('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  };
}

test('a trigger and a timeline of an emulator in a lab', options, async (t) => {
  if (process.getuid?.() !== 0) return t.skip('SKIPPED: labs and emulators need root here');
  await api('POST', '/labs', { name: LAB, middle: true });
  try {
    const runtime = { env: { ...process.env, WEIR_RUNTIME_DIR: join(directory, 'run') }, encoding: 'utf8' };
    const within = (name, ...words) => spawnSync(program, ['lab', 'exec', '--lab', LAB, name, '--', ...words], runtime).stdout;
    const ends = within('m', 'ls', '/sys/class/net').split(/\s+/).filter((one) => one !== '' && one !== 'lo');
    const flow = [{ name: 'ping', filter: { protocol: 'icmp' }, a_to_b: 'loss 100%, trigger command stop after 5packets' }];
    const emulator = await api('POST', '/emulators', { lab: `${LAB}/m`, interfaces: ends, configuration: { schema: 'weir.impair/1', flow } });
    const page = await site.page({ hash: `#/emulator/${emulator.id}` });
    const state = async () => (await page.getByRole('row', { name: /ping/ }).locator('.state').allInnerTexts()).map((text) => text.replace(/\s+/g, ' '));
    await comes(state, ['A→B waiting for trigger 0×']);
    const host = (await api('GET', '/labs')).labs.find((lab) => lab.name === LAB).hosts.find((one) => one.name === 'b');
    const answered = () => Number(/(\d+) received/.exec(within('a', 'ping', '-q', '-c', '10', '-i', '0.02', '-W', '1', host.ipv4))?.[1]);
    assert.equal(answered(), 10);
    await page.getByRole('button', { name: 'Trigger ping' }).click();
    await comes(state, ['A→B applying 1×']);
    assert.equal(answered(), 5);
    await comes(state, ['A→B stopped 1×']);
    assert.ok(await page.getByRole('button', { name: 'Trigger ping' }).isDisabled());

    await page.getByRole('button', { name: 'Timeline' }).click();
    const dialog = page.getByRole('dialog', { name: 'Timeline' });
    const text = dialog.getByRole('textbox', { name: /^Changes/ });
    await text.fill('change = [\n  { at = "0s", flow = "pong", both = "none" },\n]');
    await dialog.getByRole('alert').filter({ hasText: /^change 1: pong/ }).waitFor();
    const lines = 'change = [\n  { at = "0s", flow = "ping", a_to_b = "delay 30ms" },\n  { at = "900s", flow = "ping", both = "none" },\n]\n';
    await text.fill(lines);
    await dialog.getByRole('alert').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Done' }).click();
    const apply = async () => {
      await page.getByRole('button', { name: 'Apply' }).click();
      await page.getByRole('button', { name: 'Apply' }).and(page.locator(':disabled')).waitFor();
    };
    await apply();
    const strip = page.getByRole('region', { name: 'Timeline' });
    await strip.locator('.position').filter({ hasText: /, after change 1 of 2$/ }).waitFor();
    await strip.locator('dd').filter({ hasText: 'A→B delay 30ms; B→A none' }).waitFor();
    // What was typed is what is shown again, and a file of another kind replaces it.
    await strip.getByRole('button', { name: 'Edit timeline' }).click();
    await comes(() => text.inputValue(), lines);
    const load = (file) => dialog.getByLabel('Load file').setInputFiles({ name: 'link.csv', mimeType: 'text/csv', buffer: Buffer.from(file) });
    await load('time,delay\n0,soon\n');
    await dialog.getByRole('alert').filter({ hasText: /^link\.csv: line 2/ }).waitFor();
    await load('time,delay\n0,20ms\n900,40ms\n');
    await comes(() => text.inputValue(), 'change = [\n  { at = "0s", both = "delay 20ms" },\n  { at = "900s", both = "delay 40ms" },\n]\n');
    await page.getByRole('button', { name: 'Done' }).click();
    await apply();
    await strip.locator('dd').filter({ hasText: /^delay 20ms$/ }).waitFor();
    site.quiet();
  } finally {
    await api('DELETE', `/labs/${LAB}`);
  }
});

test('a visitor’s browser behind an emulator sees its rates and its delay', options, async (t) => {
  if (process.getuid?.() !== 0) return t.skip('SKIPPED: labs and emulators need root here');
  await api('POST', '/labs', { name: LAB, middle: true });
  const ends = [];
  let visitor;
  try {
    const env = { ...process.env, WEIR_RUNTIME_DIR: join(directory, 'run') };
    const links = spawnSync(program, ['lab', 'exec', '--lab', LAB, 'm', '--', 'ls', '/sys/class/net'], { env, encoding: 'utf8' }).stdout.split(/\s+/).filter((one) => one !== '' && one !== 'lo');
    const laws = ['--a-to-b', 'rate 8M queue 100ms, delay 15ms', '--b-to-a', 'rate 16M queue 100ms, delay 15ms'];
    ends.push(await start('m', ['impair', ...links, ...laws], /ready|control socket|Ctrl-C/));
    const host = (await api('GET', '/labs')).labs.find((lab) => lab.name === LAB).hosts.find((one) => one.name === 'b');
    ends.push(await start('b', ['serve', '--speed-test', `${host.ipv4}:9349`], /speed test on http/));
    // The browser itself runs in the lab's other host.
    const inside = join(directory, 'chromium');
    writeFileSync(inside, `#!/bin/sh\nexec "${program}" lab exec --lab ${LAB} a -- "${CHROMIUM}" "$@"\n`, { mode: 0o755 });
    process.env.WEIR_RUNTIME_DIR = join(directory, 'run');
    visitor = await launch(`http://${host.ipv4}:9349`, inside);
    const page = await visitor.page();
    await page.getByRole('button', { name: 'Start' }).click();
    await page.getByRole('heading', { name: /connection$/ }).waitFor({ timeout: 60_000 });
    const link = await page.getByLabel('Link to this result').inputValue();
    const kept = await page.evaluate(async (id) => (await fetch(`./speed/v1/results/${id}`)).json(), new URL(link).searchParams.get('result'));
    // On the wire 16 and 8 Mbit/s: with the headers of Ethernet, IP, TCP and WebSocket a payload of 95 %.
    for (const [direction, asked] of [['download', 16e6], ['upload', 8e6]]) {
      const measured = kept[direction].bits_per_second;
      assert.ok(measured > 0.85 * asked && measured <= asked, `${direction}: ${measured} of ${asked}`);
    }
    const idle = kept.round_trips.idle.min_seconds;
    assert.ok(idle >= 0.03 && idle < 0.06, `${idle} s idle, 30 ms asked`);
    // The page shows what was kept.
    const shown = await page.getByText('Download', { exact: true }).first().locator('xpath=..').innerText();
    assert.match(shown, /1[3-6](\.\d+)?\s*Mbit\/s/);
    visitor.quiet();
  } finally {
    await visitor?.close();
    for (const end of ends.reverse()) await end();
    await api('DELETE', `/labs/${LAB}`);
  }
});

test('a server is started in a host of a lab, tested and stopped', options, async (t) => {
  if (process.getuid?.() !== 0) return t.skip('SKIPPED: labs and emulators need root here');
  await api('POST', '/labs', { name: LAB });
  try {
    const far = async () => (await api('GET', '/labs')).labs.find((lab) => lab.name === LAB).hosts.find((one) => one.name === 'b');
    const { ipv4 } = await far();
    const page = await site.page();
    await page.getByText('Servers in labs').click();
    await page.getByRole('button', { name: `Start a server in ${LAB}/b` }).click();
    await comes(() => page.getByLabel('Host where').inputValue(), ipv4);
    assert.equal((await far()).server.port, 9347);
    assert.equal(await page.getByRole('combobox', { name: /^from/ }).inputValue(), `${LAB}/a`);
    await page.getByText('UDP 10 Mbit/s').click();
    await page.getByRole('button', { name: '▶ Start', exact: true }).click();
    await lines(page).locator('td.num:not(.asked)', { hasText: 'bit/s' }).first().waitFor();
    await page.getByRole('button', { name: '■ Stop all' }).click();
    const record = await finished(page, 1);
    assert.equal(record.plan.host, ipv4);
    same(await page.getByLabel('Total').locator('div', { hasText: 'To the host' }).locator('dd').innerText().then((text) => text.replace(/\s+/g, ' ')), record.total.forward.receiver.bits_per_second, 'to the host');

    // Stopped, it can't be tested; the page offers to start it again.
    await page.getByRole('button', { name: 'Lab servers' }).click();
    const dialog = page.getByRole('dialog', { name: 'Test servers in labs' });
    await dialog.getByRole('button', { name: `Stop the server in ${LAB}/b` }).click();
    await dialog.getByRole('button', { name: `Start a server in ${LAB}/b` }).waitFor();
    assert.equal((await far()).server, undefined);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: '▶ Start all' }).click();
    await page.getByLabel('Total').getByRole('button', { name: `Start a server in ${LAB}/b` }).click();
    await comes(async () => (await far()).server?.port, 9347);
    // The page knows that it runs.
    await page.getByLabel('Total').getByRole('button', { name: `Start a server in ${LAB}/b` }).waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: '▶ Start all' }).click();
    // The figures of the first test are still in the table.
    await comes(async () => (await latestTest()).state, 'running');
    await lines(page).locator('td.num:not(.asked)', { hasText: 'bit/s' }).first().waitFor();
    await page.getByRole('button', { name: '■ Stop all' }).click();
    assert.equal((await finished(page, 1)).plan.host, ipv4);
    site.quiet();
  } finally {
    await api('DELETE', `/labs/${LAB}`);
  }
});

test('a server that another program started in a host of a lab is used', options, async (t) => {
  if (process.getuid?.() !== 0) return t.skip('SKIPPED: labs and emulators need root here');
  await api('POST', '/labs', { name: LAB });
  let end;
  try {
    const { ipv4 } = (await api('GET', '/labs')).labs.find((lab) => lab.name === LAB).hosts.find((one) => one.name === 'b');
    end = await start('b', ['serve'], /9347/);
    const page = await site.page({ tolerate: (words) => words.includes('409') });
    await page.getByText('Servers in labs').click();
    const servers = page.getByRole('list', { name: 'Hosts of labs' });
    await servers.getByRole('button', { name: `Start a server in ${LAB}/b` }).click();
    await servers.getByRole('alert').waitFor();
    assert.notEqual(await page.getByLabel('Host where').inputValue(), ipv4);
    await servers.getByRole('button', { name: `Use the server in ${LAB}/b` }).click();
    await comes(() => page.getByLabel('Host where').inputValue(), ipv4);
    assert.equal(await servers.getByRole('alert').count(), 0);
    // A failed start is not shown any more once a server runs there.
    await servers.getByRole('button', { name: `Start a server in ${LAB}/b` }).click();
    await servers.getByRole('alert').waitFor();
    await end();
    await servers.getByRole('button', { name: `Start a server in ${LAB}/b` }).click();
    await servers.getByRole('button', { name: `Stop the server in ${LAB}/b` }).waitFor();
    assert.equal(await servers.getByRole('alert').count(), 0);
    site.quiet();
  } finally {
    await end?.();
    await api('DELETE', `/labs/${LAB}`);
  }
});

test('experiments of the command line appear, are compared with labels, and do not hide other runs', options, async () => {
  const page = await site.page({ hash: '#/scenarios' });
  await page.getByRole('heading', { name: 'Experiments' }).waitFor();
  const env = { ...process.env, WEIR_DATA_DIR: join(directory, 'data'), WEIR_CONFIG_DIR: join(directory, 'config'), WEIR_RUNTIME_DIR: join(directory, 'run') };
  const weir = (...words) => {
    const child = spawn(program, words, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    child.stderr.on('data', (chunk) => (said += chunk));
    return new Promise((resolve, reject) => child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`${words.join(' ')}: ${code}: ${said}`)))));
  };
  for (const title of ['before', 'after']) {
    await weir('sweep', '127.0.0.1', '-p', String(port), '-u', '-t', '1', '--title', title, '--over', 'bitrate=1M,2M');
    // Without a reload.
    await page.getByRole('row', { name: new RegExp(title) }).waitFor();
  }
  const { experiments } = await api('GET', '/experiments');
  const [second, first] = experiments.slice(0, 2);
  assert.deepEqual([first.title, second.title], ['before', 'after']);
  for (const one of [first, second]) await page.getByLabel(`Choose ${one.id}`).check();
  await page.getByRole('button', { name: 'Compare 2' }).click();

  // One table for both, with the difference, under names instead of ids.
  const frame = page.frameLocator('iframe');
  const table = frame.getByRole('table', { name: 'throughput', exact: true });
  await table.waitFor();
  const groups = async () => (await table.locator('th[scope=colgroup]').allInnerTexts()).map((text) => text.replace(/ \d{4}-.*/, ' TIME'));
  assert.deepEqual(await groups(), ['before, TIME', 'after, TIME', 'Difference']);
  assert.equal(await table.locator('tbody tr').count(), 2);
  assert.match(await table.locator('tbody tr').first().locator('td').last().innerText(), /^[+−]?[\d.]+ %$/);
  for (const { id } of [first, second]) assert.equal(await frame.locator('th', { hasText: id }).count(), 0);

  // Labels are in the address.
  await page.getByLabel('Label of experiment 1').fill('old switch');
  await page.getByLabel('Label of experiment 2').fill('new switch');
  await page.keyboard.press('Tab');
  const renamed = async () => {
    await table.getByRole('columnheader', { name: 'new switch' }).waitFor();
    assert.deepEqual(await groups(), ['old switch', 'new switch', 'Difference']);
  };
  await renamed();
  assert.deepEqual(new URLSearchParams(new URL(page.url()).hash.split('?')[1]).getAll('label'), ['old switch', 'new switch']);
  await page.reload();
  await renamed();
  // An experiment has the same colour in all charts.
  const charts = await frame.locator('figure svg').evaluateAll((all) => all.map((chart) => Object.fromEntries([...chart.querySelectorAll('g[class^=n]')].map((name) => [name.textContent.trim(), name.getAttribute('class')]))));
  assert.ok(charts.length > 1, `${charts.length} charts`);
  for (const chart of charts) assert.deepEqual(chart, charts[0]);
  assert.deepEqual(Object.keys(charts[0]).sort(), ['new switch', 'old switch']);

  // Runs of experiments are hidden, with their number, until they are asked for.
  await weir('test', '127.0.0.1', '-p', String(port), '-u', '-t', '1', '--title', 'alone');
  const of = async (kind) => (await api('GET', `/runs?kind=${kind}&limit=1`)).total;
  await page.evaluate(() => (location.hash = '#/runs'));
  const runs = page.getByRole('table', { name: 'Runs' }).locator('tbody tr');
  await page.getByRole('row', { name: /alone/ }).waitFor();
  assert.equal(await of('experiments'), 4);
  await comes(() => runs.count(), await of('tests'));
  await page.getByText('4 of experiments hidden').waitFor();
  await page.getByRole('combobox', { name: /^Runs/ }).selectOption('experiments');
  await comes(() => runs.count(), 4);
  await comes(() => new URL(page.url()).hash, '#/runs?kind=experiments');
  await page.reload();
  await comes(() => runs.count(), 4);
  await page.getByRole('button', { name: 'Show all' }).click();
  await comes(() => runs.count(), await of('all'));
  // A link to the runs of an experiment shows them.
  await page.evaluate((id) => (location.hash = `#/runs?tag=experiment%3D${id}`), first.id);
  await comes(() => runs.count(), 2);
  site.quiet();
});

test('the loss of a running test has an outage that is over, as its record does', options, async (t) => {
  if (process.getuid?.() !== 0) return t.skip('SKIPPED: labs and emulators need root here');
  await api('POST', '/labs', { name: LAB, middle: true });
  let end;
  try {
    const links = spawnSync(program, ['lab', 'exec', '--lab', LAB, 'm', '--', 'ls', '/sys/class/net'], { env: { ...process.env, WEIR_RUNTIME_DIR: join(directory, 'run') }, encoding: 'utf8' }).stdout.split(/\s+/).filter((one) => one !== '' && one !== 'lo');
    const laws = (percentage) => ({ schema: 'weir.impair/1', seed: '0x5', flow: [{ name: 'data', filter: { protocol: 'udp' }, a_to_b: { loss: { percentage } } }] });
    const emulator = await api('POST', '/emulators', { lab: `${LAB}/m`, interfaces: links, configuration: laws(5) });
    const received = async () => (await api('GET', `/emulators/${emulator.id}/counters`)).impairment.flows.find((one) => one.name === 'data' && one.direction === 'forward').counters.received_packets;
    end = await start('b', ['serve'], /9347/);
    const host = (await api('GET', '/labs')).labs.find((lab) => lab.name === LAB).hosts.find((one) => one.name === 'b');
    const page = await planned([{ name: 'lossy', transport: 'udp', rate: '1000pps', payload: '200', duration: '60s' }]);
    await page.getByRole('combobox', { name: /^from/ }).selectOption(`${LAB}/a`);
    await page.getByLabel('Host', { exact: true }).fill(host.ipv4);
    await page.getByRole('button', { name: '▶ Start all' }).click();
    /** Loss and time of the total, as shown at one moment. */
    const total = () => page.getByLabel('Total').evaluate((list) => Object.fromEntries([...list.querySelectorAll('div')].map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').innerText.replace(/\s+/g, ' ')])));
    const passes = (seconds) => comes(async () => Number.parseFloat((await total())['Time']) >= seconds, true);
    await passes(1);
    await api('PUT', `/emulators/${emulator.id}/configuration`, laws(100), { 'if-match': '*' });
    const before = await received();
    await comes(async () => (await received()) > before + 500, true);
    await api('PUT', `/emulators/${emulator.id}/configuration`, laws(5), { 'if-match': '*' });
    // Packets behind the outage have shown what it lost.
    await passes(Number.parseFloat((await total())['Time']) + 1.5);
    // A page that missed an interval shows no loss until it has read the history.
    let live;
    await comes(async () => read((live = await total())['Loss']) !== undefined, true, 'a loss', 30);
    await page.getByRole('button', { name: '■ Stop all' }).click();
    const record = await finished(page, 1);

    // As many intervals of the record as the page had seen: of a packet or two near their ends it could not know.
    const seen = record.intervals.filter((one) => one.end_seconds < Number.parseFloat(live['Time']) + 0.1);
    const sum = (of) => seen.reduce((all, one) => all + of(one.total.forward), 0);
    const sent = sum((one) => one.sender.packets);
    const loss = sum((one) => one.receiver.lost_packets) / sent;
    assert.ok(loss > 500 / sent, `${loss} of ${sent} lost`);
    assert.ok(Math.abs(read(live['Loss']).value - loss) < 20 / sent, `shown "${live['Loss']}" at ${live['Time']}, the record has ${loss}`);
    same((await total())['Loss'], record.total.forward.receiver.loss_ratio, 'loss');
    site.quiet();
  } finally {
    await end?.();
    await api('DELETE', `/labs/${LAB}`);
  }
});

/** Starts the program with the page's directories, and resolves when its output, so far, is `wanted`. */
async function beside(words, wanted) {
  const env = { ...process.env, WEIR_DATA_DIR: join(directory, 'data'), WEIR_CONFIG_DIR: join(directory, 'config'), WEIR_RUNTIME_DIR: join(directory, 'run') };
  const child = spawn(program, words, { env, cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] });
  const end = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.on('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  };
  let [output, errors] = ['', ''];
  child.stderr.on('data', (chunk) => (errors += chunk));
  try {
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${words.join(' ')} did not get there in 60 s: ${output}${errors}`)), 60_000);
      child.stdout.on('data', (chunk) => {
        output += chunk;
        if (!wanted(output)) return;
        clearTimeout(timer);
        resolve();
      });
      child.on('exit', (code) => reject(new Error(`${words[0]} ended with ${code}: ${errors}`)));
    });
  } catch (error) {
    await end();
    throw error;
  }
  return { output, end };
}

test('a mesh that is measured is shown, with its bursts', options, async (t) => {
  if (process.getuid?.() !== 0) return t.skip('SKIPPED: labs need root here');
  const nats = process.env.NATS_SERVER ?? join(dirname(program), '../tools/nats-server');
  if (!existsSync(nats)) return t.skip('SKIPPED: nats-server missing (scripts/ensure.sh test)');
  const isObject = (text) => {
    try {
      return JSON.parse(text) !== null;
    } catch {
      return false;
    }
  };
  const fleet = await beside(['fleet', 'dev', '--agents', '2', '--port', '0', '--json', '--nats-server', nats], isObject);
  let watch;
  try {
    const { nats: url, nkey } = JSON.parse(fleet.output);
    writeFileSync(join(directory, 'mesh.toml'), 'schema = "weir.mesh/1"\nname = "pair"\nwindows = ["10s"]\n\n[bursts]\nevery = "10m"\nduration = "1s"\n');
    watch = await beside(['fleet', 'watch', '--nats', url, '--nkey', nkey, '--json', 'mesh.toml'], (text) => text.includes('"line":"second"'));
    const page = await site.page({ hash: '#/mesh' });
    const cell = page.locator('td a[href="#/mesh/pair/a/b"]');
    await cell.waitFor({ timeout: 60_000 });
    assert.match(await cell.innerText(), /^[\d.]+/);
    const { agents, pairs } = await api('GET', '/meshes/pair');
    assert.deepEqual(agents.map((agent) => [agent.name, agent.state]), [['a', 'connected'], ['b', 'connected']]);
    assert.deepEqual([pairs.from, pairs.to, pairs.window_seconds], [[0], [1], [10]]);
    await cell.click();
    await page.getByRole('heading', { name: 'a → b' }).waitFor();
    // The agents of a development fleet share the data directory of the page: the run is here.
    const run = page.getByRole('table', { name: 'Bursts' }).getByRole('link').first();
    await run.waitFor({ timeout: 60_000 });
    await run.click();
    await page.getByRole('heading', { name: 'Flows' }).waitFor();
    site.quiet();
  } finally {
    await watch?.end();
    await fleet.end();
  }
});
