// Every view, in both themes, wide and narrow: accessible (axe, WCAG 2.2 AA), without errors, and without requests to other hosts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { meshOf } from '../mock/mesh.mjs';
import { draft, frames, lacking, open } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const skip = lacking();
const PLAN = { schema: 'weir.plan/1', connection: [{ name: 'voice', transport: 'udp', rate: '50pps' }, { name: 'bulk', transport: 'tcp' }] };
let site;
let views;

before(async () => {
  if (skip) return;
  site = await open();
  const emulator = site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: { schema: 'weir.impair/1', flow: [{ name: 'voice', filter: { protocol: 'udp' }, a_to_b: { loss: { percentage: 1 } } }] } });
  const experiment = site.mock.startExperiment({ scenario: 'latency-under-load' });
  const interrupted = site.mock.startExperiment({ scenario: 'latency-under-load' });
  interrupted.stop();
  const loss = (percentage) => ({ a_to_b: { loss: { percentage } }, b_to_a: { loss: { percentage } } });
  const ruled = site.mock.startEmulator({
    interfaces: ['veth-e', 'veth-f'],
    configuration: {
      schema: 'weir.impair/1',
      flow: [{ name: 'voice', a_to_b: { loss: { percentage: 1 }, trigger: { start: 'command', stop: 'after 5s' } } }, { name: 'video' }],
      aggregate: [{ flows: ['voice', 'video'], a_to_b: { rate: { bits: '1M' } } }],
      timeline: { loop: '60s', change: [{ at: '10s', flow: 'video', ...loss(5) }, { at: '20s', ...loss(1) }] },
    },
  });
  const logged = site.mock.startEmulator({ interfaces: ['veth-c', 'veth-d'], packet_trace: true });
  site.mock.alarm(logged.entry.id, { kind: 'deadline-late', object: 'forward', at_seconds: 12, active: true, text: '3 packets left more than 1 ms late, the latest by 1.8 ms' });
  site.mock.experimentMs = 0;
  site.mock.startDemo({});
  site.mock.labs = [{ name: 'lab1', hosts: [{ name: 'a', ipv4: '10.77.0.1', ipv6: 'fd00::1' }], nodes: ['a', 'm', 'b'] }];
  site.mock.meshes.set('core', () => meshOf('core', ['paris', 'lyon', 'berlin', 'madrid', 'oslo'], { gone: ['madrid'], unusable: ['oslo'], down: ['paris/lyon'], lost: { 'paris/lyon': 0.4, 'lyon/berlin': 0.01, 'paris/berlin': 0.0004 } }));
  site.mock.meshes.set('wide', () => meshOf('wide', Array.from({ length: 20 }, (_, index) => `site-${index}`), { gone: ['site-3'], at: Date.now() / 1000 - 60 }));
  const runs = [...site.mock.records.keys()];
  site.mock.speed.results.set('r1', { id: 'r1', at: '2026-03-01T00:00:00Z', version: '0.1.0', ...site.mock.speed.judged, download: { bytes: 1e6, seconds: 1, bits_per_second: 8e6 }, latency: { idle: [0.01, 0.02], download: [0.2, 0.3], upload: [0.1] }, curves: { download: [{ from: 0, to: 1, rate: 8e6 }, { from: 1, to: 2, rate: 9e6 }], upload: [] } });
  const running = site.mock.startTest({ host: '192.0.2.10', plan: PLAN });
  // The connections of PLAN, which run.
  const connections = async (page) => (await draft(page, PLAN, running), void (await page.getByText('voice').first().waitFor()));
  const click = (name, role = 'tab') => async (page) => void (await page.getByRole(role, { name, exact: true }).click());
  views = [
    ['first visit', '', 'Test a path'],
    ['generator', '', 'Test a path', connections],
    ['wall', '', 'Test a path', async (page) => (await connections(page), await click('Wall')(page), void (await page.getByRole('group', { name: 'voice' }).waitFor()))],
    ['columns', '', 'Test a path', async (page) => (await connections(page), void (await page.getByRole('button', { name: 'Columns' }).or(page.getByLabel('Sort by')).click()))],
    ['connection', '', 'Test a path', async (page) => (await connections(page), await page.getByRole('button', { name: 'Edit voice' }).click(), void (await page.getByText('Advanced').click()))],
    ['emulator', `#/emulator/${emulator.entry.id}`, 'Flows'],
    ['law', `#/emulator/${emulator.entry.id}`, 'Flows', async (page) => (await page.getByRole('link', { name: 'voice', exact: true }).click(), await page.getByRole('group', { name: 'From A to B' }).getByRole('button', { name: /^Loss/ }).click(), void (await page.getByText('packets by the engine').waitFor()))],
    ['trigger', `#/emulator/${ruled.entry.id}/voice/a_to_b/trigger`, 'waiting for trigger', async (page) => void (await page.getByText('packets by the engine').waitFor())],
    ['changes of the timeline', `#/emulator/${ruled.entry.id}`, 'video now', async (page) => void (await page.getByText('Changes', { exact: true }).click())],
    ['timeline', `#/emulator/${ruled.entry.id}`, 'video now', async (page) => void (await page.getByRole('button', { name: 'Edit timeline' }).click())],
    ['asked and measured', `#/emulator/${emulator.entry.id}`, 'Flows', click('Asked / measured')],
    ['presets', `#/emulator/${emulator.entry.id}/voice`, 'Flows', async (page) => void (await page.getByRole('button', { name: /^Preset/ }).click())],
    ['alarms', `#/emulator/${logged.entry.id}`, 'Flows', async (page) => void (await page.getByRole('tab', { name: /^Alarms/ }).click())],
    ['packet-trace', `#/emulator/${logged.entry.id}`, 'Flows', click('Log')],
    ['new emulator', '#/emulator/new', 'Start an emulator'],
    ['runs', '#/runs', '2 stored'],
    ['run', `#/runs/${runs[0]}`, 'Loss ledger', async (page) => void (await page.getByText('Provenance').click())],
    ['comparison', `#/runs/compare?runs=${runs.join(',')}`, 'Differences'],
    ['scenarios', '#/scenarios', 'Latency under load'],
    ['scenario file', '#/scenarios', 'Latency under load', async (page) => void (await page.getByText('The file').click())],
    ['sweep', '#/scenarios', 'Latency under load', click('New sweep', 'button')],
    ['experiment', `#/scenarios/${experiment.id}`, 'mean loss'],
    ['interrupted', `#/scenarios/${interrupted.id}`, 'Resume'],
    ['mesh', '#/mesh/core', 'no reply', async (page) => void (await page.locator('td a').first().hover(), await page.getByRole('tooltip').waitFor())],
    ['round trips', '#/mesh/core?figure=round-trip', 'berlin'],
    ['rates', '#/mesh/core?figure=rate', 'berlin'],
    ['large mesh', '#/mesh/wide', 'site-19'],
    ['pair', '#/mesh/core/paris/lyon', 'Bursts', async (page) => void (await page.getByText('Rate of bursts').first().waitFor())],
    ['system', '#/system', 'Limits'],
    ['doctor', '#/system', 'Limits', click('Doctor')],
    ['demo', '#/system', 'Limits', async (page) => (await click('Demo')(page), void (await page.getByText('On a plain link').waitFor()))],
    ['calibration', '#/system', 'Limits', click('Calibration')],
    ['labs', '#/system', 'Limits', click('Labs')],
    ['keys', '', 'Test a path', click('? keys: keyboard shortcuts', 'button')],
    ['speed', 'speed.html', 'Start'],
    ['speed result', 'speed.html?result=r1', 'Link to this result', async (page) => void (await page.getByRole('group', { name: 'Round trips' }).waitFor())],
  ];
});
after(() => site?.close());

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** What axe finds in the page. */
async function violations(page, runOnly) {
  const found = await page.evaluate((only) => globalThis.axe.run(document, { runOnly: only, resultTypes: ['violations'] }), runOnly);
  return found.violations.map((one) => `${one.id}: ${one.help}\n   ${one.nodes.slice(0, 4).map((node) => `${node.target.join(' ')} – ${node.any[0]?.message ?? node.all[0]?.message ?? ''}`).join('\n   ')}`);
}

for (const [width, height] of [[1440, 900], [360, 740]]) {
  test(`all views, ${width} wide`, { skip, timeout: 240_000 }, async () => {
    const faults = [];
    for (const [name, hash, sign, prepare] of views) {
      if (name === 'keys' && width < 720) continue;
      const page = await site.page({ width, height, ...(hash.endsWith('.html') ? { file: hash } : { hash }) });
      await page.getByText(sign).first().waitFor();
      await prepare?.(page);
      await frames(page);
      await page.evaluate(axe);
      faults.push(...(await violations(page, RULES)).map((one) => `${name}: ${one}`));
      // Nothing sticks out of the page: what is wide scrolls in a box of its own.
      const wide = await page.evaluate(() => {
        const most = document.documentElement.clientWidth;
        if (document.documentElement.scrollWidth <= most) return [];
        return [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > most + 1 && getComputedStyle(one).position !== 'fixed').slice(0, 6).map((one) => `${one.tagName}.${one.className} ${Math.round(one.getBoundingClientRect().right)}`);
      });
      if (wide.length > 0) faults.push(`${name} sticks out: ${wide.join('; ')}`);
      // The dark theme has other colours and nothing else.
      await page.emulateMedia({ colorScheme: 'dark' });
      await frames(page);
      faults.push(...(await violations(page, ['color-contrast'])).map((one) => `${name}, dark: ${one}`));
      await page.context().close();
      faults.push(...site.faults.splice(0).map((one) => `${name}: ${one}`));
    }
    assert.deepEqual(faults, []);
  });
}
