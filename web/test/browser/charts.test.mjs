// Charts: zoom, pan, tooltip and keys while figures come.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { comes, lacking, open } from './harness.mjs';

const skip = lacking();
const options = { skip, timeout: 60_000 };
let site;

before(async () => {
  if (!skip) site = await open();
});
afterEach(() => site?.clear());
after(() => site?.close());

/** A running test with these connections; its chart. */
async function running(names) {
  const page = await site.page();
  await page.evaluate((all) => localStorage.setItem('weir.draft', JSON.stringify({ schema: 'weir.plan/1', connection: all.map((name) => ({ name, transport: 'udp' })) })), names);
  await page.reload();
  await page.getByRole('button', { name: '▶ Start all' }).click();
  const chart = page.getByRole('group', { name: 'Throughput over time' });
  await chart.waitFor();
  return { page, chart };
}

/** What a chart shows: ends of its plot in the drawing, marks of its horizontal axis in seconds, lines. */
const look = (chart) =>
  chart.evaluate((node) => {
    const [, left, right] = /^M([\d.]+) [\d.]+L([\d.]+) /.exec(node.querySelector('path[stroke="var(--line)"]').getAttribute('d')).map(Number);
    const texts = [...node.querySelectorAll('svg text[text-anchor=middle]')];
    const unit = texts.at(-1).textContent.endsWith(', ms') ? 1e-3 : 1;
    const marks = texts.slice(0, -1).map((one) => ({ x: Number(one.getAttribute('x')), at: Number(one.textContent) * unit }));
    return { left, right, marks, lines: [...node.querySelectorAll('path[stroke-width="1.4"]')].map((one) => one.getAttribute('d')) };
  });

/** The range of time from edge to edge, by its marks. */
async function rangeOf(chart) {
  const { left, right, marks } = await look(chart);
  const [first, last] = [marks[0], marks.at(-1)];
  const perUnit = (last.at - first.at) / (last.x - first.x);
  return [left, right].map((edge) => first.at + (edge - first.x) * perUnit);
}

const near = (seen, wanted, words) => assert.ok(seen.every((value, index) => Math.abs(value - wanted[index]) < 0.03), `${words}: ${seen.join(', ')}; wanted ${wanted.join(', ')}`);
const seconds = (chart) => look(chart).then(({ marks }) => marks.at(-1).at);

test('a chosen range stays while figures come, can be moved, and a double click shows everything', options, async () => {
  const { page, chart } = await running(['a', 'b']);
  await comes(async () => (await seconds(chart)) >= 2, true);
  const box = await chart.boundingBox();
  const { left, right } = await look(chart);
  const at = (fraction) => [box.x + left + (right - left) * fraction, box.y + box.height / 2];
  await page.mouse.move(...at(0.25));
  await page.mouse.down();
  await page.mouse.move(...at(0.5), { steps: 4 });
  await page.mouse.up();
  await chart.getByRole('button', { name: 'Show all' }).waitFor();
  const chosen = await rangeOf(chart);
  assert.ok(chosen[0] > 0.2 && chosen[1] < 2.5, chosen.join(', '));
  // Another 1.5 s of figures.
  const time = () => page.getByLabel('Total').locator('div', { hasText: 'Time' }).locator('dd').innerText().then(Number.parseFloat);
  const then = await time();
  await comes(async () => (await time()) >= then + 1.5, true);
  near(await rangeOf(chart), chosen, 'kept');
  // Shift and drag moves it by the distance of the pointer.
  await page.keyboard.down('Shift');
  await page.mouse.move(...at(0.4));
  await page.mouse.down();
  await page.mouse.move(...at(0.6), { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  const by = (chosen[1] - chosen[0]) * 0.2;
  near(await rangeOf(chart), chosen.map((value) => value - by), 'moved');
  // The chart has the focus, so the wheel magnifies around the pointer.
  await page.mouse.move(...at(0.5));
  await page.mouse.wheel(0, -200);
  await comes(async () => { const [from, to] = await rangeOf(chart); return to - from < (chosen[1] - chosen[0]) * 0.7; }, true);
  const [from, to] = await rangeOf(chart);
  near([(from + to) / 2], [(chosen[0] + chosen[1]) / 2 - by], 'around the pointer');
  await page.mouse.dblclick(...at(0.5));
  await chart.getByRole('button', { name: 'Show all' }).waitFor({ state: 'detached' });
  assert.ok((await seconds(chart)) > chosen[1]);
  site.quiet();
});

test('without focus the wheel scrolls the page, not the chart', options, async () => {
  const { page, chart } = await running(['a']);
  await comes(async () => (await seconds(chart)) >= 1, true);
  await chart.hover();
  // Two frames after the event, what it changes is drawn.
  await page.evaluate(() => {
    globalThis.turned = new Promise((drawn) => addEventListener('wheel', () => requestAnimationFrame(() => requestAnimationFrame(drawn)), { once: true }));
  });
  await page.mouse.wheel(0, -200);
  await page.evaluate(() => globalThis.turned.then(() => undefined));
  assert.equal(await chart.getByRole('button', { name: 'Show all' }).count(), 0);
  site.quiet();
});

test('values are shown at the pointer and read out by key', options, async () => {
  const { page, chart } = await running(['a', 'b', 'c']);
  await comes(async () => (await seconds(chart)) >= 1, true);
  const box = await chart.boundingBox();
  const { left } = await look(chart);
  await page.mouse.move(box.x + left + 20, box.y + box.height / 2);
  const tip = chart.locator('.tip');
  await tip.waitFor();
  assert.deepEqual(await tip.locator('dt').allTextContents(), ['a', 'b', 'c']);
  for (const value of await tip.locator('dd').allTextContents()) assert.match(value, /bit\/s$/);
  const place = await tip.boundingBox();
  assert.ok(Math.abs(place.x - box.x - left - 20) < 40, 'beside the pointer');
  await page.mouse.move(box.x + left + 20, box.y - 100);
  await tip.waitFor({ state: 'detached' });
  // By key: from the first value on, and the range is chosen around it.
  await chart.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await comes(() => chart.getByRole('status').textContent().then((text) => text.replace(/[\d.]+ [kM]?bit/g, 'N bit')), '0.25 s – 0.5 s: a N bit/s, b N bit/s, c N bit/s');
  await page.keyboard.press('+');
  await chart.getByRole('button', { name: 'Show all' }).waitFor();
  await page.keyboard.press('0');
  await chart.getByRole('button', { name: 'Show all' }).waitFor({ state: 'detached' });
  site.quiet();
});

test('figures that come change the lines, not the elements', options, async () => {
  const { chart } = await running(['a', 'b']);
  await comes(async () => (await seconds(chart)) >= 1, true);
  await chart.evaluate((node) => {
    globalThis.lines = [...node.querySelectorAll('path[stroke-width="1.4"]')];
    globalThis.before = globalThis.lines.map((one) => one.getAttribute('d'));
  });
  await comes(() => chart.evaluate((node) => {
    const now = [...node.querySelectorAll('path[stroke-width="1.4"]')];
    return now.every((one, index) => one === globalThis.lines[index]) && now.every((one, index) => one.getAttribute('d') !== globalThis.before[index]);
  }), true);
  // A value is a level over its interval: only horizontal and vertical strokes.
  for (const line of (await look(chart)).lines) {
    const spots = [...line.matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(([, x, y]) => [x, y]);
    assert.ok(spots.length > 4);
    for (const [index, [x, y]] of spots.entries()) if (index > 0) assert.ok(x === spots[index - 1][0] || y === spots[index - 1][1], line);
  }
  site.quiet();
});

test('a connection has one colour, whatever else is shown', options, async () => {
  const { page, chart } = await running(['a', 'b', 'c']);
  // Wide enough for the column of small curves.
  await page.setViewportSize({ width: 1920, height: 1100 });
  const colours = async () => {
    const names = await chart.locator('svg text').evaluateAll((all) => all.flatMap((one) => (['a', 'b', 'c'].includes(one.textContent) ? [one.textContent] : [])));
    const strokes = await chart.locator('path[stroke-width="1.4"]').evaluateAll((all) => all.map((one) => one.getAttribute('stroke')));
    return { names: names.length, strokes };
  };
  await comes(colours, { names: 3, strokes: ['var(--series-1)', 'var(--series-2)', 'var(--series-3)'] });
  const sparks = () => page.getByRole('table', { name: 'Connections' }).locator('td.spark path').evaluateAll((all) => all.map((one) => one.getAttribute('stroke')));
  await comes(sparks, ['var(--series-1)', 'var(--series-2)', 'var(--series-3)']);
  await page.getByRole('table', { name: 'Connections' }).getByRole('row', { name: /^c/ }).click();
  await comes(colours, { names: 1, strokes: ['var(--series-3)'] });
  site.quiet();
});
