// The view of a mesh: its matrix, and a pair.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { meshOf } from '../mock/mesh.mjs';
import { cells, comes, lacking, open } from './harness.mjs';

const skip = lacking();
const options = { skip, timeout: 120_000 };
const AGENTS = ['paris', 'lyon', 'berlin', 'madrid', 'oslo'];
let site;

before(async () => {
  if (!skip) site = await open();
});
afterEach(async () => {
  await site?.clear();
  site?.mock.meshes.clear();
});
after(() => site?.close());

const mesh = (name, agents, more) => site.mock.meshes.set(name, () => meshOf(name, agents, typeof more === 'function' ? more() : more));
const link = (page, from, to) => page.locator(`td a:is([href="#/mesh/core/${from}/${to}"], [href^="#/mesh/core/${from}/${to}?"])`);

test('the matrix has a figure of each direction, and its address says which', options, async () => {
  mesh('core', AGENTS, { lost: { 'paris/lyon': 0.25, 'lyon/berlin': 0 } });
  const page = await site.page({ hash: '#/mesh' });
  await comes(() => link(page, 'paris', 'lyon').innerText(), '25.0');
  assert.equal(await link(page, 'lyon', 'paris').innerText(), '25.0');
  assert.equal(await link(page, 'lyon', 'berlin').innerText(), '0');
  assert.equal(await page.locator('table td a').count(), 20);
  await page.getByLabel('One-way delay').check({ force: true });
  await comes(() => link(page, 'paris', 'lyon').innerText().then((words) => /^[\d.]+\n±[\d.]+$/.test(words)), true);
  assert.match(page.url(), /figure=one-way/);
  await page.reload();
  await comes(() => link(page, 'paris', 'lyon').innerText().then((words) => words.includes('±')), true);
  await page.getByLabel('Rate').check({ force: true });
  await comes(() => link(page, 'paris', 'lyon').innerText().then((words) => /\n\d+ m$/.test(words)), true);
  site.quiet();
});

test('old figures, agents that are gone and pairs without replies are marked', options, async () => {
  mesh('core', AGENTS, { gone: ['madrid'], unusable: ['oslo'], down: ['paris/lyon'] });
  const page = await site.page({ hash: '#/mesh/core' });
  await comes(() => link(page, 'paris', 'lyon').innerText(), '0\nno reply');
  assert.equal(await link(page, 'paris', 'madrid').innerText(), '0\n13 m');
  const heads = page.getByRole('table', { name: /^Loss between agents/ }).getByRole('rowheader');
  assert.deepEqual(await heads.allTextContents(), ['paris', 'lyon', 'berlin', '✕ madrid, gone', "! oslo, can't be measured"]);
  const agents = await cells(page.getByRole('table', { name: 'Agents', exact: true }));
  assert.deepEqual(agents[1].slice(0, 2), ['oslo', "can't be measured"]);
  assert.equal(agents[1][4], 'version 0.0.9, not 0.1.0');
  site.quiet();
});

test('figures are read again while the page is visible', options, async () => {
  let loss = 0;
  mesh('core', ['a', 'b'], () => ({ lost: { 'a/b': loss } }));
  const page = await site.page({ hash: '#/mesh' });
  await comes(() => link(page, 'a', 'b').innerText(), '0');
  await link(page, 'a', 'b').focus();
  loss = 0.5;
  await comes(() => link(page, 'a', 'b').innerText(), '50.0', 'the figure stays', 60);
  // The cell is the same one: it keeps the focus.
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), '50.0');
  // Another agent appears.
  mesh('core', ['a', 'b', 'c']);
  await link(page, 'a', 'c').waitFor({ timeout: 60_000 });
  site.quiet();
});

test('a cell leads to its pair by pointer and by keys, and its run to the run', options, async () => {
  mesh('core', AGENTS);
  const page = await site.page({ hash: '#/mesh/core?figure=round-trip' });
  await link(page, 'paris', 'lyon').hover();
  await page.getByRole('tooltip').getByText('paris → lyon').waitFor();
  await link(page, 'paris', 'lyon').click();
  await page.getByRole('heading', { name: 'paris → lyon' }).waitFor();
  for (const name of ['Loss', 'Round trip', 'One-way delay', 'Rate of bursts']) await page.getByRole('group', { name, exact: true }).waitFor();
  assert.equal((await cells(page.getByRole('table', { name: 'Changes' })))[1][2], '20.40 ms → 32.40 ms');
  const bursts = page.getByRole('table', { name: 'Bursts' });
  const [, newest, other] = await cells(bursts);
  assert.equal(newest.at(-1), '20260301-101500-a1b2c3');
  assert.match(other.at(-1), / stored at lyon$|stored at paris$/);
  await page.getByLabel('Time').selectOption('30 days');
  await page.getByText('points of 29 minutes').waitFor();
  assert.match(page.url(), /range=30d/);
  await page.getByRole('link', { name: '← core' }).click();
  await link(page, 'paris', 'lyon').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  // Cells of an agent with itself are left out, twice here.
  await comes(() => page.evaluate(() => document.activeElement?.getAttribute('href')), '#/mesh/core/berlin/madrid?figure=round-trip');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'berlin → madrid' }).waitFor();
  await bursts.getByRole('link', { name: '20260301-101500-a1b2c3' }).click();
  await comes(() => new URL(page.url()).hash, '#/runs/20260301-101500-a1b2c3');
  site.quiet();
});

test('several meshes are chosen by name', options, async () => {
  mesh('core', ['a', 'b']);
  mesh('edge', ['c', 'd'], () => ({ at: Date.now() / 1000 - 7200 }));
  const page = await site.page({ hash: '#/mesh' });
  // The one that was measured last.
  await link(page, 'a', 'b').waitFor();
  await page.getByLabel('Name').selectOption('edge');
  await page.getByRole('status').getByText('Nothing was measured for 2 h').waitFor();
  assert.match(page.url(), /#\/mesh\/edge/);
  site.quiet();
});

test('without a mesh the page says how to start one', options, async () => {
  const page = await site.page({ hash: '#/mesh' });
  await page.getByText('No mesh is measured from this host').waitFor();
  await page.getByText(/^weir fleet watch .* mesh\.toml$/).waitFor();
  await page.getByRole('button', { name: 'Copy: The command' }).click();
  await page.getByRole('button', { name: 'Copy: The command' }).getByText(/Copied|Selected/).waitFor();
  site.quiet();
});

test('a mesh of 200 agents scrolls below its heads', options, async () => {
  mesh('core', Array.from({ length: 200 }, (_, index) => `a${index}`));
  const page = await site.page({ hash: '#/mesh' });
  await link(page, 'a0', 'a1').waitFor({ timeout: 60_000 });
  assert.equal(await page.locator('td a').count(), 200 * 199);
  await link(page, 'a150', 'a180').focus();
  const box = page.locator('.scroll');
  const [frame, column, row] = await Promise.all([box.boundingBox(), page.locator('thead th').nth(180).boundingBox(), page.locator('tbody th').nth(150).boundingBox()]);
  assert.ok(Math.abs(column.y - frame.y) < 3, 'the head of the column is in sight');
  assert.ok(Math.abs(row.x - frame.x) < 3, 'the head of the row is in sight');
  site.quiet();
});
