// Pictures of each view in light and dark, wide and narrow, from the mock: `npm run screenshots` after a build.
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { draft, open } from './browser/harness.mjs';
import { smaller } from './png.mjs';

const into = process.argv[2] ?? fileURLToPath(new URL('../../docs/screenshots', import.meta.url));
mkdirSync(into, { recursive: true });
const only = process.argv[3];
const site = await open();

const test = site.mock.startTest({ host: '192.0.2.10', plan: { connection: [{ name: 'voice', transport: 'udp', payload: '172', rate: '50pps' }, { name: 'video', transport: 'udp', payload: '1200', rate: '8M' }, { name: 'bulk', transport: 'tcp' }, { name: 'bulk-back', transport: 'tcp', direction: 'reverse' }, { name: 'users', transport: 'udp', rate: '1M', count: 12 }] } });
const PLAN = { schema: 'weir.plan/1', interval: '250ms', connection: [{ name: 'voice', transport: 'udp', payload: '172', rate: '50pps', tos: 184 }, { name: 'video', transport: 'udp', payload: '1200', rate: '8M' }, { name: 'bulk', transport: 'tcp' }, { name: 'bulk-back', transport: 'tcp', direction: 'reverse' }, { name: 'users', transport: 'udp', rate: '1M', count: 12 }] };
const EMULATION = { schema: 'weir.impair/1', flow: [{ name: 'voice', filter: { protocol: 'udp', destination_port: '5060-5090', dscp: 46 }, a_to_b: { loss: { percentage: 1 }, delay: { normal: { mean: '40ms', deviation: '5ms' }, order: 'fifo-release' } }, b_to_a: { delay: { constant: '40ms' }, content: { percentage: 0.1, flip_bits: 1, checksum: 'repair' } } }, { name: 'video', filter: { protocol: 'udp', destination_port: '9000' }, a_to_b: { loss: { gilbert_elliott: { loss_percentage: 2, mean_run: 4 } }, duplicate: { percentage: 0.1 } } }], other: { a_to_b: { rate: { bits: '100M', queue: '250ms' } } } };
const emulator = site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: EMULATION, journal: true });
site.mock.alarm(emulator.entry.id, { kind: 'deadline-late', object: 'forward', at_seconds: 12, active: true, text: '3 packets left more than 1 ms late, the latest by 1.8 ms' });
site.mock.startExperiment({ scenario: 'latency-under-load' });
const interrupted = site.mock.startExperiment({ scenario: 'latency-under-load' });
interrupted.stop();
site.mock.experimentMs = 0;
site.mock.startDemo({});
const run = [...site.mock.records.keys()];
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const VIEWS = [
  ['start', '', async () => {}],
  ['generator', '#/generator', async (page) => {
    await draft(page, PLAN, test);
    await wait(4000);
  }],
  ['connection', '#/generator', async (page) => {
    await draft(page, PLAN, test);
    await page.getByRole('button', { name: 'Edit video' }).click();
    await wait(300);
  }],
  ['emulator', `#/emulator/${emulator.entry.id}`, async (page) => {
    await page.getByRole('button', { name: /^voice/ }).first().click();
    await page.getByRole('group', { name: 'From A to B' }).getByRole('button', { name: /Delay and jitter/ }).click();
    await page.getByRole('textbox', { name: 'deviation' }).fill('8ms');
    await wait(1500);
  }],
  ['journal', `#/emulator/${emulator.entry.id}`, async (page) => {
    const log = page.getByRole('button', { name: 'Log other', pressed: true });
    await page.getByRole('button', { name: 'Log other' }).waitFor();
    if ((await log.count()) > 0) await log.click();
    await page.getByRole('tab', { name: 'Log', exact: true }).click();
    await page.getByText('Later configurations').scrollIntoViewIfNeeded();
  }],
  ['runs', '#/runs', async () => {}],
  ['run', `#/runs/${run[0]}`, async () => {}],
  ['comparison', `#/runs/compare?runs=${run.join(',')}`, async () => {}],
  ['scenarios', '#/scenarios', async () => {}],
  ['experiment', `#/scenarios/${site.mock.experiments[1].id}`, async () => {}],
  ['interrupted', `#/scenarios/${interrupted.id}`, async () => {}],
  ['speed', 'speed.html', async (page) => {
    await page.getByRole('button', { name: 'Start' }).click();
    await page.getByRole('heading', { name: /connection$/ }).waitFor();
    await page.mouse.move(0, 0);
  }],
  ['system', '#/system', async (page) => {
    await page.getByRole('tab', { name: 'Doctor' }).click();
  }],
  ['demo', '#/system', async (page) => {
    await page.getByRole('tab', { name: 'Demo' }).click();
    await page.getByRole('table', { name: 'Asked, realised, measured' }).waitFor();
  }],
];

for (const scheme of ['light', 'dark']) {
  for (const [size, width, height] of [['wide', 1440, 900], ['narrow', 360, 740]]) {
    for (const [name, hash, prepare] of VIEWS) {
      if (only && !only.split(',').includes(name)) continue;
      const page = await site.page({ width, height, scheme, ...(hash.endsWith('.html') ? { file: hash } : { hash }) });
      await prepare(page);
      await wait(700);
      writeFileSync(`${into}/${name}-${scheme}-${size}.png`, smaller(await page.screenshot()));
      await page.context().close();
    }
  }
}
if (site.faults.length > 0) console.error(site.faults);
await site.close();
