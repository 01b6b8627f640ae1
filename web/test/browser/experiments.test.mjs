// The page of an experiment: the tables of its scenario; several experiments side by side.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { comes, lacking, open } from './harness.mjs';

const skip = lacking();
let site;
before(async () => {
  if (skip) return;
  site = await open();
  site.mock.experimentMs = 0;
});
afterEach(() => site?.clear());
after(() => site?.close());

test('a result table has the published columns, marked, before the measured ones', { skip }, async () => {
  const { id } = site.mock.startExperiment({ scenario: 'link-throughput' });
  const page = await site.page({ hash: `#/scenarios/${id}` });
  const table = page.getByRole('table', { name: 'Throughput and Ethernet usage' });
  await table.waitFor();
  const texts = (row, role) => row.locator(role).allTextContents();
  const rows = table.locator('tbody tr');
  assert.equal(await rows.count(), 3);
  assert.deepEqual(await texts(rows.nth(0), 'th'), ['1', 'udp']);
  assert.deepEqual(await texts(rows.nth(1), 'td'), ['92.8 (96.4)', '94.8 (98.5)', '94.1 (98.6)*']);
  assert.deepEqual(await texts(rows.nth(2), 'td'), ['95.7 (98.7)', '–', 'not run']);
  // One heading over both columns of the study.
  const groups = table.locator('thead th[scope=colgroup]');
  assert.deepEqual(await groups.evaluateAll((all) => all.map((one) => [one.colSpan, one.querySelector('.tag') !== null])), [[2, true], [1, false]]);
  // Tables come before the steps.
  const headings = await page.locator('h2').allTextContents();
  assert.ok(headings.indexOf('Tables') < headings.indexOf('loss'), String(headings));
  site.quiet();
});

test('chosen experiments are side by side, in the order of their starts, by an address of their own', { skip }, async () => {
  const [first, second] = ['link-throughput', 'link-throughput'].map((scenario) => site.mock.startExperiment({ scenario }).id);
  const page = await site.page({ hash: '#/scenarios' });
  const compare = page.getByRole('button', { name: 'Compare' });
  await page.getByLabel(`Choose ${second}`).check();
  assert.ok(await compare.isDisabled());
  await page.getByLabel(`Choose ${first}`).check();
  await compare.click();
  const hash = `#/scenarios/compare?experiment=${first}&experiment=${second}`;
  await comes(() => page.evaluate(() => location.hash), hash);
  const title = (of) => of.frameLocator('iframe').locator('h1').textContent();
  assert.equal(await title(page), `${first} ${second}`);
  // By the address alone; an experiment that the server does not have is named instead.
  const other = await site.page({ hash });
  assert.equal(await title(other), `${first} ${second}`);
  await other.evaluate((id) => (location.hash = `#/scenarios/compare?experiment=${id}&experiment=none`), first);
  await other.getByRole('alert').filter({ hasText: 'none' }).waitFor();
  assert.equal(await other.locator('iframe').count(), 0);
  site.quiet();
});
