// Runs, scenarios, the host; and how large the page is.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { cells, comes, lacking, never, open } from './harness.mjs';

const skip = lacking();
const options = { skip, timeout: 60_000 };
let site;

before(async () => {
  if (!skip) site = await open();
});
after(() => site?.close());
afterEach(() => site?.clear());

test('the page is below 250 KiB compressed, all of it', () => {
  const dist = fileURLToPath(new URL('../../dist', import.meta.url));
  const files = readdirSync(dist, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const size = files.reduce((sum, one) => sum + gzipSync(readFileSync(`${one.parentPath ?? one.path}/${one.name}`), { level: 9 }).length, 0);
  console.log(`the page: ${(size / 1024).toFixed(1)} KiB compressed, ${files.length} files`);
  assert.ok(size < 250 * 1024, `${size} bytes`);
});

test('two runs are found, looked into, tagged and compared', options, async () => {
  const page = await site.page({ hash: '#/runs', tolerate: (words) => words.includes('422') });
  const table = page.getByRole('table', { name: 'Runs' });
  await table.waitFor();
  await page.getByLabel('Where').fill('nonsense');
  await page.getByRole('alert').getByText('nonsense; accepted: a condition').waitFor();
  await page.getByLabel('Where').fill('');
  await page.getByRole('alert').waitFor({ state: 'detached' });
  const boxes = table.getByRole('checkbox');
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByRole('button', { name: 'Compare 2' }).click();
  await page.getByText('better').waitFor();
  await page.getByText('worse').waitFor();
  assert.equal(await page.getByText('voice.jitter_seconds').count(), 0, 'what chance explains is shown as moved');
  await page.getByLabel('all figures').check();
  await page.getByText('voice.jitter_seconds').waitFor();
  for (const format of ['html', 'md']) {
    const started = page.waitForEvent('download');
    await page.getByRole('button', { name: `Download as ${format.toUpperCase()}` }).click();
    const report = await started;
    assert.match(report.suggestedFilename(), new RegExp(`^weir-report-.*-and-1-more\\.${format}$`));
    // All runs of the comparison, in its order.
    const ids = decodeURIComponent(new URL(page.url()).hash.split('runs=')[1]).split(',');
    assert.equal(readFileSync(await report.path(), 'utf8'), `${format} of ${ids.join(' ')}`);
  }
  await page.getByRole('link', { name: /20260301/ }).click();
  await page.getByText('Loss ledger').waitFor();
  await page.getByText('remainder').waitFor();
  await page.getByText('Triangulation').waitFor();
  // Title, one sentence, key figures, charts; then where they come from.
  const id = new URL(page.url()).hash.split('/').at(-1);
  const { plan } = site.mock.records.get(id);
  const places = async () => Promise.all([page.getByRole('heading', { level: 1 }), page.getByText(/arrived with a loss of/), page.getByLabel('Key figures'), page.getByRole('group', { name: 'Throughput' }).first(), page.getByText('Provenance')].map(async (one) => (await one.boundingBox()).y));
  await comes(() => page.getByRole('heading', { level: 1 }).innerText(), plan.title ?? `Test with ${plan.host}`);
  await page.getByRole('group', { name: 'Throughput' }).waitFor();
  const ys = await places();
  assert.deepEqual(ys, [...ys].sort((a, b) => a - b));
  await comes(() => page.getByLabel('Key figures').locator('div').allInnerTexts().then((all) => all.map((one) => one.split('\n').slice(0, 2))), [['Received', '19.7 Mbit/s'], ['Loss', '1 %'], ['One-way delay, median', '–'], ['Round trip under load', '31.0 ms']]);
  const origin = page.locator('details', { hasText: 'Provenance' });
  assert.equal(await origin.getByText(id).first().isVisible(), false);
  await origin.getByText('Provenance').click();
  await origin.getByText(id).first().waitFor();
  const flows = page.getByRole('table').filter({ hasText: 'Retransmitted segments' });
  await comes(async () => {
    const [head, ...rows] = await cells(flows);
    return rows.map((row) => row[head.indexOf('Crossing')]);
  }, ['per-packet', '–', 'per-packet']);
  await comes(() => page.getByRole('group', { name: 'Throughput' }).count(), 1);
  await page.getByLabel('New tag').fill('room=east');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Remove tag room' }).waitFor();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download as HTML' }).click();
  assert.match((await download).suggestedFilename(), /\.html$/);
  site.quiet();
});

test('filters of runs, the chosen scenario and its refused values are where they belong', options, async () => {
  const page = await site.page({ hash: '#/runs', tolerate: (words) => words.includes('422') });
  const address = () => new URL(page.url()).hash;
  await page.getByLabel('Since').selectOption('7d');
  await page.getByLabel('Title').fill('line two');
  await comes(address, '#/runs?title=line+two&since=7d');
  await page.reload();
  await comes(() => page.getByLabel('Title').inputValue(), 'line two');
  await comes(() => page.getByLabel('Since').inputValue(), '7d');
  // A link selects others.
  await page.evaluate(() => (location.hash = '#/runs?tag=room%3Deast'));
  await comes(() => page.getByLabel('Tags').inputValue(), 'room=east');
  await comes(() => page.getByLabel('Title').inputValue(), '');
  await page.evaluate(() => (location.hash = '#/scenarios'));
  await page.getByRole('button', { name: /Other tools/ }).click();
  await comes(address, '#/scenarios?scenario=tools');
  await page.reload();
  await comes(() => page.getByRole('button', { name: /Other tools/ }).getAttribute('aria-pressed'), 'true');
  // What the server refuses is explained at its field, and nowhere else.
  await page.getByRole('button', { name: /Latency under load/ }).click();
  const variable = page.getByRole('group', { name: /^Variables/ }).getByRole('textbox').first();
  const name = await page.getByRole('group', { name: /^Variables/ }).locator('label').first().innerText();
  const field = `/set/${name.trim().replaceAll(' ', '_')}`;
  await page.route('**/api/v1/experiments', (route) => (route.request().method() === 'POST' ? route.fulfill({ status: 422, contentType: 'application/problem+json', json: { title: 'invalid', status: 422, detail: 'invalid', errors: [{ field, message: 'not a time' }, { field: '/elsewhere', message: 'another thing' }] } }) : route.continue()));
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByRole('group', { name: /^Variables/ }).locator('label').first().getByRole('alert').getByText('not a time').waitFor();
  assert.equal(await page.getByText('not a time').count(), 1);
  assert.equal(await variable.getAttribute('aria-invalid'), 'true');
  await page.getByRole('alert').getByText('another thing').waitFor();
  site.quiet();
});

test('a file of another tool is imported and its run opened', options, async () => {
  const page = await site.page({ hash: '#/runs', tolerate: (words) => words.includes('422') });
  const give = (name, text) => page.getByLabel('Import a file').setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await page.getByRole('table', { name: 'Runs' }).waitFor();
  await give('notes.txt', 'unknown');
  await page.getByRole('alert').getByText('notes.txt: FILE: invalid content').waitFor();
  await give('two.txt', 'one\ntwo');
  await page.getByText('two.txt: 2 runs, 1 of them stored already').waitFor();
  await never(page.getByText('notes.txt'), 'the refusal of another file');
  assert.equal(new URL(page.url()).hash, '#/runs');
  await give('one.txt', 'one');
  await comes(() => new URL(page.url()).hash, `#/runs/${[...site.mock.records.keys()][0]}`);
  await page.getByText('one.txt: 1 run, stored already').waitFor();
  site.quiet();
});

test('a scenario is picked, started and followed to its verdict', options, async () => {
  const page = await site.page({ hash: '#/scenarios' });
  await page.getByRole('heading', { name: 'Latency under load' }).waitFor();
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByRole('status').getByText('running').waitFor();
  // Its runs are found while it runs.
  const { hash } = new URL(page.url());
  await comes(() => page.getByRole('link', { name: 'Its runs' }).getAttribute('href'), `#/runs?tag=experiment%3D${hash.split('/').at(-1)}`);
  await page.getByText('mean loss < 3 %').waitFor();
  await page.getByText('1.02 % ± 0.08 % is below 3 %').waitFor();
  const ticks = async () => (await page.locator('.figures svg text').allTextContents()).join();
  await comes(async () => (await ticks()) !== '', true);
  const scaled = await ticks();
  await page.getByLabel('Axes from zero').check();
  await comes(async () => (await ticks()) !== scaled, true);
  const report = page.waitForRequest(/report/);
  await page.getByRole('button', { name: 'MD', exact: true }).click();
  assert.equal(new URL((await report).url()).searchParams.get('from_zero'), 'true');
  site.quiet();
});

test('a stopped experiment is resumed, once', options, async () => {
  const page = await site.page({ hash: '#/scenarios' });
  site.mock.experimentMs = 60_000;
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByRole('status').getByText('running').waitFor();
  const goOn = page.getByRole('button', { name: '▶ Resume' });
  await never(goOn, 'a running experiment can not be resumed');
  await page.getByRole('button', { name: '■ Stop' }).click();
  await page.getByRole('status').getByText('interrupted').waitFor();
  await page.getByText('interrupted: 2 of 5 runs were made').waitFor();
  const { hash } = new URL(page.url());
  // The list tells it too.
  await page.getByRole('link', { name: '← Scenarios' }).click();
  await page.getByRole('row', { name: /\binterrupted incomplete: can be resumed/ }).getByRole('link').click();
  site.mock.experimentMs = 300;
  await goOn.click();
  await page.getByRole('status').getByText('running').waitFor();
  await page.getByText('1.02 % ± 0.08 % is below 3 %').waitFor();
  assert.equal(new URL(page.url()).hash, hash, 'it is the same experiment');
  await page.getByRole('status').getByText('running').waitFor({ state: 'detached' });
  await never(goOn, 'a complete experiment can not be resumed');
  assert.equal(site.mock.calls.filter((one) => /^POST .*\/resume$/.test(one)).length, 1);
  await page.getByRole('link', { name: '← Scenarios' }).click();
  await page.getByRole('row', { name: /\bended passed/ }).first().waitFor();
  await never(page.getByRole('row', { name: /can go on/ }), 'a complete experiment can not be resumed');
  site.mock.experimentMs = 700;
  site.quiet();
});

test('a scenario that runs commands says what the server lacks', options, async () => {
  const page = await site.page({ hash: '#/scenarios' });
  await page.getByRole('button', { name: /Other tools/ }).click();
  await page.getByText('--allow-commands').waitFor();
  assert.ok(await page.getByRole('button', { name: '▶ Start' }).isDisabled());
  site.quiet();
});

test('the host: doctor, calibration, a lab created and removed', options, async () => {
  const page = await site.page({ hash: '#/system' });
  await page.getByRole('tab', { name: 'Doctor' }).click();
  await page.getByText('labs can be made').waitFor();
  await page.getByRole('tab', { name: 'Calibration' }).click();
  await page.getByText('lab one way delay p99').waitFor();
  await page.getByRole('tab', { name: 'Labs' }).click();
  await comes(async () => new URL(page.url()).hash, '#/system/labs');
  await page.reload();
  await comes(() => page.getByRole('tab', { name: 'Labs' }).getAttribute('aria-selected'), 'true');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('row', { name: /lab1/ }).getByText('10.77.0.1').waitFor();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('row', { name: /lab1/ }).waitFor({ state: 'detached' });
  assert.deepEqual(site.mock.labs, []);
  site.quiet();
});

test('the demo is run, watched and stopped; its table tells asked, realised and measured', options, async () => {
  const bodies = [];
  const page = await site.page({ hash: '#/system' });
  page.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/demo') && bodies.push(request.postDataJSON()));
  site.mock.experimentMs = 60_000;
  await page.getByRole('tab', { name: 'Demo' }).click();
  const run = page.getByRole('button', { name: '▶ Run the demo' });
  await run.click();
  await page.getByText('measuring this host’s noise floor').waitFor();
  await page.getByRole('button', { name: '■ Stop' }).waitFor();
  await never(run, 'two at once');
  await page.getByRole('button', { name: '■ Stop' }).click();
  await page.getByText('It was stopped before its end.').waitFor();
  await page.getByRole('status').getByText('interrupted').waitFor();
  site.mock.experimentMs = 200;
  await run.click();
  const table = page.getByRole('table', { name: 'Asked, realised, measured' });
  await table.waitFor();
  await comes(async () => (await cells(table)).slice(0, 7), [
    ['Path', 'Figure', 'Asked', 'Realised', 'Measured', 'Tolerance', 'Verdict'],
    ['loss loss 5%', 'lost', '50 pkt', '48 pkt', '48 pkt', '12 to 97', 'passed'],
    ['packets joined', '1\u202f000 pkt', '–', '1\u202f000 pkt', 'exact', 'passed'],
    ['dispositions', '1\u202f047 pkt', '1\u202f047 pkt', '–', 'exact', 'passed'],
    ['rate 10M rate 10M queue 200ms the host was busy; measured 3 times', 'rate', '10.00 Mbit/s', '10.00 Mbit/s', '–', '± 100.0 kbit/s', 'undecided'],
    ['dispositions', '900 pkt', '899 pkt', '–', 'exact', 'undecided'],
    ['delay delay 20ms', 'the peer was lost', 'failed'],
  ]);
  await page.getByText('2 of 4 rows passed').waitFor();
  await page.getByRole('row', { name: /^udp-paced/ }).getByText('0 of 1 000 pkt').waitFor();
  await page.getByRole('checkbox', { name: /^Simulated/ }).check();
  await run.click();
  await page.getByText('On a plain link').waitFor({ state: 'detached' });
  await page.getByText('1 of 3 rows passed').waitFor();
  await page.getByRole('heading', { name: 'Simulated, with the emulator in the middle' }).waitFor();
  assert.deepEqual(bodies, [{ simulate: false }, { simulate: false }, { simulate: true }]);
  site.mock.experimentMs = 700;
  site.quiet();
});

test('a figure’s values can be read without seeing it', options, async () => {
  const page = await site.page({ hash: `#/runs/${[...site.mock.records.keys()][0]}` });
  const plot = page.getByRole('group', { name: 'Delay by size' });
  await plot.waitFor();
  const told = () => plot.evaluate((one) => document.getElementById(one.getAttribute('aria-describedby'))?.textContent ?? '');
  await comes(async () => (await told()).includes('confidence interval'), true);
  const figure = page.locator('figure', { hasText: 'Delay by size' });
  await figure.getByText('Values', { exact: true }).click();
  const table = figure.getByRole('table', { name: 'Delay by size: values' });
  await comes(async () => (await cells(table)).slice(0, 3), [
    ['Series', 'Size', 'Losses', 'From', 'To'],
    ['histogram', '0 B – 256 B', '4', '3', '5'],
    ['histogram (host-limited)', '256 B – 1\u202f024 B', '9', '7', '12'],
  ]);
  await figure.getByText('asked: 22').waitFor();
  await figure.getByText('Left out of the totals: 0 B – 128 B').waitFor();
  site.quiet();
});

test('a notice covers no button that ends an edit, and stays while it is read', options, async () => {
  const emulator = site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: { schema: 'weir.impair/1', flow: [{ name: 'voice', filter: {}, a_to_b: { loss: { percentage: 2 } } }] } });
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice`, width, height });
    await page.clock.install();
    await page.getByRole('button', { name: 'Remove voice' }).first().click();
    const apply = page.getByRole('button', { name: /^Apply/ });
    await apply.click();
    const notice = page.getByRole('region', { name: 'Notices' }).getByRole('status');
    await notice.waitFor();
    await apply.scrollIntoViewIfNeeded();
    const [one, other] = [await notice.boundingBox(), await apply.boundingBox()];
    assert.ok(one.x + one.width <= other.x || other.x + other.width <= one.x || one.y + one.height <= other.y || other.y + other.height <= one.y, JSON.stringify([one, other]));
    await notice.hover();
    await page.clock.runFor(30_000);
    await notice.waitFor();
    await page.mouse.move(width / 2, height / 2);
    await page.clock.runFor(30_000);
    await notice.waitFor({ state: 'detached' });
    site.mock.configure(emulator.entry.id, { ...emulator.configuration, flow: [{ name: 'voice', filter: {} }] });
    await page.context().close();
  }
  site.mock.emulators.clear();
  site.quiet();
});

test('a sweep is put together, refused beside its field, started and followed', options, async () => {
  const bodies = [];
  const page = await site.page({ hash: '#/scenarios', tolerate: (words) => words.includes('422') });
  page.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/sweeps') && bodies.push(request.postDataJSON()));
  await page.getByRole('button', { name: 'New sweep' }).click();
  const form = page.getByRole('form', { name: 'New sweep' });
  await form.getByLabel('Values 1').fill('128..1408:128');
  await form.getByRole('button', { name: '+ Parameter' }).click();
  await form.getByLabel('Parameter 2', { exact: true }).fill('rate');
  await form.getByLabel('Values 2', { exact: true }).fill('?!');
  await form.getByLabel('Repetitions').fill('3');
  await form.getByLabel('Laws of an emulator').fill('delay 10ms');
  await form.getByRole('button', { name: '▶ Start sweep' }).click();
  await form.getByText('rate=?!; accepted: NAME=VALUES').waitFor();
  await comes(() => form.getByLabel('Values 2', { exact: true }).getAttribute('aria-invalid'), 'true');
  assert.equal(await form.getByLabel('Values 1').getAttribute('aria-invalid'), 'false');
  await form.getByLabel('Values 2', { exact: true }).fill('1M,2M');
  await form.getByRole('button', { name: '▶ Start sweep' }).click();
  await page.getByText('lab made').first().waitFor();
  const { plan, ...asked } = bodies.at(-1);
  assert.deepEqual(asked, { over: ['payload=128..1408:128', 'rate=1M,2M'], runs: 3, lab: true, in_order: false, both: 'delay 10ms' });
  assert.equal(plan.connection.length, 1);
  site.quiet();
});

/** A figure of a report over these values. */
const figureOf = (id, quantity, mark, series, x = {}) => ({
  id, title: id, caption: '', references: [], shades: [],
  x: { label: 'at', key: 'at', quantity: 'seconds', scale: 'linear', from_zero: false, categories: [], ...x },
  y: { label: id, key: id, quantity, scale: 'linear', from_zero: true, categories: [] },
  series: series.map(([name, ys], n) => ({ name, mark, heavy: false, x: ys.map((_, index) => index + n / 100), y: ys, x_end: [], low: [], high: [], host_limited: [] })),
});

test('labels of axes are complete and not repeated, and lines are distinguishable', options, async () => {
  const figures = [
    figureOf('per minute', 'per_minute', 'line', [['a', [0, 500, 1000, 123]]]),
    figureOf('nearly equal', 'bits_per_second', 'line', [['a', [1e9, 1.0001e9, 1.00005e9]]]),
    figureOf('small ratio', 'ratio', 'line', [['a', [0, 1e-5, 3e-5]]]),
    figureOf('long ends', 'seconds', 'line', [['a', [1e-7, 2e-7]]], { quantity: 'bytes' }),
    figureOf('bars', 'count', 'bars', [['a', [3, 4, 5]]], { quantity: 'category', scale: 'category', categories: ['the first category', 'second', 'the very last category'] }),
    figureOf('many', 'seconds', 'line', Array.from({ length: 17 }, (_, n) => [`flow ${n}`, [n, n + 1]])),
  ];
  figures[1].y.from_zero = false;
  const page = await site.page();
  await page.route('**/api/v1/runs/*/figures', (route) => route.fulfill({ json: { figures } }));
  await page.goto(`${site.address}/#/runs/${[...site.mock.records.keys()][0]}`);
  await page.reload();
  for (const { title } of figures) {
    const chart = page.getByRole('group', { name: title, exact: true });
    await chart.waitFor();
    const { texts, width, height } = await chart.evaluate((node) => {
      const whole = node.querySelector('svg').getBoundingClientRect();
      const texts = [...node.querySelectorAll('svg text')].map((one) => ({ text: one.textContent, anchor: one.getAttribute('text-anchor'), place: one.getBoundingClientRect() }));
      return { width: whole.width, height: whole.height, texts: texts.map(({ place, ...one }) => ({ ...one, left: place.left - whole.left, right: place.right - whole.left, top: place.top - whole.top, bottom: place.bottom - whole.top })) };
    });
    for (const one of texts) assert.ok(one.left >= -0.5 && one.right <= width + 0.5 && one.top >= -0.5 && one.bottom <= height + 0.5, `${title}: "${one.text}" is cut: ${JSON.stringify(one)}, ${width} × ${height}`);
    // Labels of the vertical axis end at it, those of the horizontal one are centred on their marks.
    for (const anchor of ['end', 'middle']) {
      const all = texts.filter((one) => one.anchor === anchor).map((one) => one.text);
      assert.ok(all.length > 1, `${title}: no labels, ${anchor}`);
      assert.equal(new Set(all).size, all.length, `${title}: ${all.join(' | ')}`);
    }
  }
  // Of 17 lines none is drawn as another: sixteen colours, then a dash.
  const strokes = await page.getByRole('group', { name: 'many', exact: true }).locator('path[stroke-width="1.4"]').evaluateAll((all) => all.map((one) => `${getComputedStyle(one).stroke} ${one.getAttribute('stroke-dasharray')}`));
  assert.equal(strokes.length, 17);
  assert.equal(new Set(strokes).size, 17, strokes.join('; '));
  site.quiet();
});
