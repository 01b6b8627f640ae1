// Pictures for docs/screenshots: the program WEIR (built with the page in it) measures a lab with an emulator in its
// middle, and Chromium shows it. `WEIR=../target/release/weir npm run screenshots [DIRECTORY [VIEW,VIEW…]]`, as root.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CHROMIUM, draft, launch } from './browser/harness.mjs';
import { smaller } from './png.mjs';

const program = process.env.WEIR;
if (program === undefined || process.getuid?.() !== 0) {
  console.error('usage, as root: WEIR=PROGRAM npm run screenshots [DIRECTORY [VIEW,VIEW…]]');
  process.exit(2);
}
const into = process.argv[2] ?? fileURLToPath(new URL('../../docs/screenshots', import.meta.url));
const only = process.argv[3]?.split(',');
mkdirSync(into, { recursive: true });

const LAB = 'pictures';
const directory = mkdtempSync(join(tmpdir(), 'weir-pictures-'));
const env = { ...process.env, WEIR_DATA_DIR: join(directory, 'data'), WEIR_CONFIG_DIR: join(directory, 'config'), WEIR_RUNTIME_DIR: join(directory, 'run') };
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What runs, in the order of its start. */
const children = [];

/** Starts the program and resolves with the first match of `wanted` in its output. */
async function start(words, wanted, host) {
  const command = host === undefined ? words : ['lab', 'exec', '--lab', LAB, host, '--', program, ...words];
  const child = spawn(program, command, { env: { ...env, ...(host && { WEIR_DATA_DIR: join(directory, host) }) }, stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  let output = '';
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${wanted} in 20 s: ${output}`)), 20_000);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output += chunk;
        const found = wanted.exec(output);
        if (found === null) return;
        clearTimeout(timer);
        resolve(found);
      });
    }
    child.on('exit', (code) => reject(new Error(`exit ${code}: ${output}`)));
  });
}

let address;
async function api(method, path, body, headers = {}) {
  const response = await fetch(`${address}/api/v1${path}`, { method, headers: { ...(body && { 'content-type': 'application/json' }), ...headers }, ...(body && { body: JSON.stringify(body) }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

/** Asks until `ready` holds, a minute at most. */
async function until(path, ready) {
  for (const end = Date.now() + 60_000; Date.now() < end; await wait(200)) {
    const found = await api('GET', path);
    if (ready(found)) return found;
  }
  throw new Error(`${path} did not get there in 60 s`);
}

const EMULATION = {
  schema: 'weir.impair/1',
  seed: '0x7',
  flow: [
    { name: 'voice', filter: { protocol: 'udp', dscp: 46 }, a_to_b: { loss: { percentage: 1 }, delay: { normal: { mean: '40ms', deviation: '5ms' }, order: 'fifo-release' } }, b_to_a: { delay: { constant: '40ms' } } },
    { name: 'video', filter: { protocol: 'udp', dscp: 34 }, a_to_b: { loss: { gilbert_elliott: { loss_percentage: 2, mean_run: 4 } }, duplicate: { percentage: 0.1 }, delay: { constant: '40ms' } } },
  ],
  other: { a_to_b: { rate: { bits: '50M', queue: '100ms' }, delay: { constant: '20ms' } } },
};
const PLAN = {
  schema: 'weir.plan/1',
  interval: '500ms',
  connection: [
    { name: 'voice', transport: 'udp', payload: '172', rate: '50pps', tos: 184 },
    { name: 'video', transport: 'udp', payload: '1200', rate: '8M', tos: 136 },
    { name: 'bulk', transport: 'tcp' },
    { name: 'bulk-back', transport: 'tcp', direction: 'reverse', rate: '20M' },
  ].map((one) => ({ ...one, duration: '300s' })),
};

/** A test between the hosts of the lab, up to its record. */
async function measured(plan) {
  const test = await api('POST', '/tests', { from: `${LAB}/a`, host: far, plan: { schema: 'weir.plan/1', ...plan } });
  // It has a run_id from its start.
  const ended = await until(`/tests/${test.id}`, (one) => ['ended', 'failed', 'interrupted'].includes(one.state));
  if (ended.state !== 'ended') throw new Error(`${plan.title}: ${ended.state} ${ended.error ?? ''}`);
  return ended.run_id;
}

let far;
let site;
try {
  address = (await start(['serve', '--ui=127.0.0.1:0', '--scenarios', fileURLToPath(new URL('../../scenarios', import.meta.url)), '-B', '127.0.0.1', '-p', String(20_000 + (process.pid % 20_000))], /(http:\/\/127\.0\.0\.1:\d+)\//))[1];
  await api('POST', '/labs', { name: LAB, middle: true });
  far = (await api('GET', '/labs')).labs.find((one) => one.name === LAB).hosts.find((one) => one.name === 'b').ipv4;
  const listed = spawnSync(program, ['lab', 'exec', '--lab', LAB, 'm', '--', 'ls', '/sys/class/net'], { env, encoding: 'utf8' }).stdout;
  const interfaces = listed.split(/\s+/).filter((one) => one !== '' && one !== 'lo');
  const emulator = await api('POST', '/emulators', { lab: `${LAB}/m`, interfaces, configuration: EMULATION, packet_trace: true });
  await start(['serve'], /9347/, 'b');
  const speed = (await start(['serve', '--speed-test', '127.0.0.1:0'], /speed test on (http:\/\/[^/\s]+)/, undefined))[1];

  const runs = [];
  for (const rate of ['4M', '8M']) runs.push(await measured({ title: `video at ${rate}`, connection: [{ name: 'video', transport: 'udp', payload: '1200', rate, tos: 136, duration: '5s' }] }));
  await api('POST', '/demo', { simulate: true });
  const experiment = await api('POST', '/experiments', { scenario: 'rfc2544', quick: true, simulate: true });
  await until(`/experiments/${experiment.id}`, (one) => one.state !== 'running' && one.state !== 'starting');
  const test = await api('POST', '/tests', { from: `${LAB}/a`, host: far, plan: PLAN });
  await wait(15_000);

  const watched = async (page) => {
    await draft(page, PLAN, test);
    await page.getByRole('combobox', { name: /^from/ }).selectOption(`${LAB}/a`);
    await page.getByLabel('Host', { exact: true }).fill(far);
    await wait(6000);
  };
  const VIEWS = [
    ['generator', '#/generator', watched],
    ['connection', '#/generator', async (page) => {
      await watched(page);
      await page.getByRole('button', { name: 'Edit video' }).click();
    }],
    ['emulator', `#/emulator/${emulator.id}`, async (page) => {
      await page.getByRole('link', { name: 'voice', exact: true }).waitFor();
      await wait(2500);
    }],
    ['law', `#/emulator/${emulator.id}/voice/a_to_b/delay`, async (page) => {
      await page.getByText('packets by the engine').waitFor();
      await wait(6000);
    }],
    ['runs', '#/runs', async () => {}],
    ['run', `#/runs/${runs[0]}`, async () => {}],
    ['comparison', `#/runs/compare?runs=${runs.join(',')}`, async () => {}],
    ['experiment', `#/scenarios/${experiment.id}`, async () => {}],
    ['demo', '#/system', async (page) => {
      await page.getByRole('tab', { name: 'Demo' }).click();
      await page.getByRole('table', { name: 'Asked, realised, measured' }).waitFor();
    }],
    ['speed', undefined, async (page) => {
      await page.getByRole('button', { name: 'Start' }).click();
      await page.getByRole('heading', { name: /connection$/ }).waitFor({ timeout: 60_000 });
      await page.mouse.move(0, 0);
    }],
  ];

  site = await launch(address, CHROMIUM);
  const visitors = await launch(speed, CHROMIUM);
  for (const [name, hash, prepare] of VIEWS) {
    if (only && !only.includes(name)) continue;
    for (const [scheme, size, width, height] of [['light', 'wide', 1440, 900], ['dark', 'narrow', 360, 740]]) {
      const page = await (hash === undefined ? visitors.page({ width, height, scheme }) : site.page({ width, height, scheme, hash }));
      await prepare(page);
      await wait(700);
      writeFileSync(`${into}/${name}-${scheme}-${size}.png`, smaller(await page.screenshot()));
      await page.context().close();
    }
  }
  const faults = [...site.faults, ...visitors.faults];
  if (faults.length > 0) console.error(faults);
  await visitors.close();
  await api('POST', `/tests/${test.id}/stop`);
} finally {
  await site?.close();
  if (address !== undefined) await api('DELETE', `/labs/${LAB}`).catch(() => {});
  for (const child of children.reverse()) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const gone = new Promise((resolve) => child.on('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  }
  rmSync(directory, { recursive: true, force: true });
}
