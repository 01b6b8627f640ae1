// The visitor's speed test against the mock's WebSocket server, as PROTOCOL.md has it.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { cells, comes, lacking, open } from './harness.mjs';

const skip = lacking();
const options = { skip, timeout: 60_000 };
let site;

before(async () => {
  if (!skip) site = await open();
});
after(() => site?.close());
afterEach(() => site?.clear());

test('on a phone: start, figures, verdict, link', options, async () => {
  const page = await site.page({ file: 'speed.html', width: 360, height: 740 });
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByText('Downloading').waitFor();
  await page.getByText('Uploading').waitFor();
  await page.getByRole('heading', { name: /connection$/ }).waitFor({ timeout: 20_000 });
  const kept = site.mock.speed.results.get('r1');
  // The mock sends 20 MB/s: 160 Mbit/s, less what the machine is too slow for.
  assert.ok(kept.download.bits_per_second > 10e6 && kept.download.bits_per_second < 200e6, `${kept.download.bits_per_second}`);
  assert.ok(kept.upload.bits_per_second > 0);
  assert.ok(kept.latency.idle.length >= 3 && kept.latency.download.length >= 3 && kept.latency.upload.length >= 3);
  // The mock answers 25 ms later under load than idle.
  const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
  assert.ok(middle(kept.latency.download) > middle(kept.latency.idle));
  const link = await page.getByLabel('Link to this result').inputValue();
  assert.match(link, /\?result=r1$/);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 360);
  site.quiet();

  // What is shown is what was stored.
  const shown = await page.locator('dl div', { hasText: 'while uploading' }).locator('dd').innerText();
  const sorted = [...kept.latency.upload].sort((a, b) => a - b);
  const median = (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.floor(sorted.length / 2)]) / 2;
  assert.equal(shown.split(/\s/)[0], (median * 1000).toFixed(3));
  const uses = page.getByRole('table', { name: 'What the connection is good for' });
  await comes(async () => (await cells(uses)).slice(1), [['Calls', 'good', 'round trip under load 30.0 ms'], ['4K video', 'usable', 'download 30.0 Mbit/s']]);
  const earlier = page.locator('section', { hasText: 'Tests of this browser' });
  assert.equal(await earlier.getByRole('link').count(), 1);

  // The link has the curves too, and adds nothing to the history.
  const other = await site.page({ file: 'speed.html?result=r1' });
  await other.getByRole('heading', { name: /connection$/ }).waitFor();
  await other.getByText(/Measured/).first().waitFor();
  for (const name of ['Rates over time', 'Round trips']) await other.getByRole('group', { name }).waitFor();
  assert.equal(await other.getByText('Tests of this browser').count(), 0);
  site.quiet();

  // It survives a reload, and is forgotten on request.
  await page.reload();
  await earlier.getByRole('button').click();
  await page.reload();
  await page.getByRole('heading', { name: /connection$/ }).waitFor();
  assert.equal(await earlier.count(), 0);
  site.quiet();
});

test('a test shows its progress and can be cancelled', options, async () => {
  const page = await site.page({ file: 'speed.html' });
  const before = site.mock.speed.results.size;
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('status').getByText('Downloading').waitFor();
  const progress = page.getByRole('progressbar');
  const at = () => progress.evaluate((one) => one.value);
  const first = await at();
  assert.ok(first > 0 && first < 1, `${first}`);
  await comes(async () => (await at()) > first, true);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Start' }).waitFor();
  assert.equal(await page.getByRole('group').count(), 0);
  assert.equal(site.mock.speed.results.size, before);
  site.quiet();
});

test('what the server did not judge has no verdict, whatever the figures', options, async () => {
  const { judged } = site.mock.speed;
  for (const [told, words] of [[{}, 'The figures were not judged.'], [{ verdict: 'download 160 Mbit/s.' }, 'Some of the figures needed']]) {
    site.mock.speed.judged = told;
    site.mock.speed.results.set('bare', { id: 'bare', at: new Date().toISOString(), version: '0.1.0', latency: { idle: [], download: [], upload: [] }, ...told });
    const page = await site.page({ file: 'speed.html?result=bare' });
    await page.getByText(words).waitFor();
    assert.equal(await page.getByRole('heading', { name: /connection$/ }).count(), 0);
    if (told.verdict) await page.getByText('Download 160 Mbit/s.').waitFor();
  }
  site.mock.speed.judged = judged;
  site.quiet();
});

test('a link that could not be copied is said to be so', options, async () => {
  site.mock.speed.results.set('bare', { id: 'bare', at: new Date().toISOString(), version: '0.1.0', latency: { idle: [], download: [], upload: [] } });
  const page = await site.page({ file: 'speed.html?result=bare' });
  // As over plain HTTP in a browser that lets no page copy.
  await page.evaluate(() => {
    Object.defineProperty(navigator, 'clipboard', { value: undefined });
    document.execCommand = () => false;
  });
  await page.getByRole('button', { name: 'Copy' }).click();
  await page.getByText('did not let the page copy').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Copied' }).count(), 0);
  assert.match(await page.evaluate(() => getSelection()?.toString() || document.activeElement.value), /result=bare/);
  await page.evaluate(() => (document.execCommand = () => true));
  await page.getByRole('button', { name: 'Copy' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  site.quiet();
});

test('a server with no room says when to come again', options, async () => {
  site.mock.speed.busy = true;
  const page = await site.page({ file: 'speed.html' });
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByText('Four tests run from your address already. Try again in 30 s.').waitFor();
  site.mock.speed.busy = false;
  await page.getByRole('button', { name: 'Measure again' }).click();
  await page.getByText('Downloading').waitFor();
  site.quiet();
});

test('a result that is not there is said to be so', options, async () => {
  const page = await site.page({ file: 'speed.html?result=nothing', tolerate: (words) => words.includes('404') });
  await page.getByText('This server has no such result.').waitFor();
  site.quiet();
});
