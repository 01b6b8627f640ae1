// A thousand flows ten times a second: what is on the page stays small, still and flat. How busy the main thread was is
// printed, not judged: it is a property of the machine.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { comes, lacking, open } from './harness.mjs';

const skip = lacking();
const SECONDS = Number(process.env.LIVE_SECONDS ?? 12);
let site;

before(async () => {
  if (!skip) site = await open({ mock: { hertz: 10 } });
});
after(() => site?.close());

/** A digit more in a right-aligned number is some millionths of the screen; a box that moves is more. */
function still(shifts) {
  const sum = shifts.reduce((all, one) => all + one.value, 0);
  assert.ok(sum < 0.0005, `${sum}: ${JSON.stringify(shifts.slice(0, 20), undefined, 1)}`);
}

test('1000 flows at 10 updates a second', { skip, timeout: 180_000 }, async () => {
  const plan = { schema: 'weir.plan/1', interval: '100ms', connection: [{ name: 'users', transport: 'udp', rate: '1M', count: 1000 }] };
  const page = await site.page();
  await page.evaluate((kept) => localStorage.setItem('weir.draft', JSON.stringify(kept)), plan);
  await page.reload();
  await page.getByRole('button', { name: '▶ Start all' }).click();
  const table = page.getByRole('table', { name: 'Connections' });
  await table.locator('td.num:not(.asked)', { hasText: 'Mbit/s' }).first().waitFor();
  await page.evaluate(() => {
    globalThis.shifts = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        // The spacers stand for rows out of sight: they are empty, and change their height while one scrolls.
        const sources = entry.sources.filter((source) => !source.node?.classList?.contains('space'));
        if (!entry.hadRecentInput && sources.length > 0) globalThis.shifts.push({ value: entry.value, what: sources.map((source) => `${source.node?.nodeName}.${source.node?.className ?? source.node?.textContent}`).join(', ') });
      }
    }).observe({ type: 'layout-shift' });
    globalThis.updates = 0;
    new MutationObserver(() => (globalThis.updates += 1)).observe(document.querySelector('tbody tr[data-index] td.num:not(.asked)') ?? document.querySelector('tbody'), { subtree: true, characterData: true, childList: true });
  });
  const chrome = await page.context().newCDPSession(page);
  // Processor time: on a busy machine the wall's would count what others took.
  await chrome.send('Performance.enable', { timeDomain: 'threadTicks' });
  const figures = async () => Object.fromEntries((await chrome.send('Performance.getMetrics')).metrics.map((one) => [one.name, one.value]));
  const memory = async () => {
    await chrome.send('HeapProfiler.collectGarbage');
    return (await figures()).JSHeapUsedSize / 1e6;
  };
  // Rings fill while the first figures come: flat is meant from when they are all there.
  const { intervals } = site.mock.tests[0];
  const more = async (seconds) => {
    const until = intervals.length + seconds * site.mock.hertz;
    await comes(() => intervals.length >= until, true, undefined, seconds * 3 + 10);
  };
  await more(2);
  const begin = await figures();
  const firstHeap = await memory();
  const slices = [];
  for (let slice = 0; slice < 3; slice += 1) {
    await more(SECONDS / 3);
    // The user scrolls meanwhile.
    await page.locator('.port').evaluate((port, at) => (port.scrollTop = at), slice * 9000);
    // The lines that have gone are let go of with the frame that shows the new ones.
    await page.locator(`tr[data-index="${Math.ceil((slice * 9000) / 32)}"]`).waitFor();
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    slices.push(await memory());
  }
  const end = await figures();
  const wall = end.Timestamp - begin.Timestamp;
  const busy = (end.TaskDuration - begin.TaskDuration) / wall;
  const rows = await page.locator('tbody tr[data-index]').count();
  const { shifts, updates } = await page.evaluate(() => ({ shifts: globalThis.shifts, updates: globalThis.updates }));
  console.log(`main thread busy ${(busy * 100).toFixed(1)} % over ${wall.toFixed(1)} s (script ${(((end.ScriptDuration - begin.ScriptDuration) / wall) * 100).toFixed(1)} %, layout ${(((end.LayoutDuration - begin.LayoutDuration) / wall) * 100).toFixed(1)} %, style ${(((end.RecalcStyleDuration - begin.RecalcStyleDuration) / wall) * 100).toFixed(1)} %)`);
  console.log(`heap ${[firstHeap, ...slices].map((one) => one.toFixed(1)).join(' → ')} MB, ${rows} rows in the document, nodes ${begin.Nodes} → ${end.Nodes}`);
  assert.ok(rows > 5 && rows < 80, `${rows} rows exist at once`);
  assert.ok(updates > SECONDS, `only ${updates} updates were seen`);
  still(shifts);
  assert.ok(slices.at(-1) - firstHeap < 12, `the heap grew from ${firstHeap} to ${slices.at(-1)} MB`);
  assert.ok(end.Nodes < begin.Nodes * 1.5 + 500, `nodes grew from ${begin.Nodes} to ${end.Nodes}`);
  // The last row is there when one scrolls to it, with figures.
  await page.locator('.port').evaluate((port) => (port.scrollTop = port.scrollHeight));
  await table.getByText('users-1000', { exact: true }).waitFor();
  await table.getByRole('row', { name: /users-1000/ }).getByText('bit/s').first().waitFor();
  site.quiet();
});

test('nothing moves while the emulator counts', { skip, timeout: 60_000 }, async () => {
  const emulator = site.mock.startEmulator({ interfaces: ['veth-a', 'veth-b'], configuration: { schema: 'weir.impair/1', flow: [{ name: 'voice', filter: {}, a_to_b: { loss: { percentage: 2 } } }] } });
  const page = await site.page({ hash: `#/emulator/${emulator.entry.id}/voice` });
  await page.getByRole('tab', { name: 'Interfaces' }).waitFor();
  const counted = async (seconds) => {
    const until = emulator.report.seconds + seconds;
    await comes(() => emulator.report.seconds >= until, true);
  };
  await counted(1.5);
  await page.evaluate(() => {
    globalThis.shifts = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) globalThis.shifts.push({ value: entry.value, what: entry.sources.map((source) => `${source.node?.nodeName}.${source.node?.className ?? source.node?.textContent}`).join(', ') });
    }).observe({ type: 'layout-shift' });
  });
  await counted(4);
  still(await page.evaluate(() => globalThis.shifts));
  site.quiet();
});

test('a page that was left closes its stream and opens it again when it is back', { skip, timeout: 60_000 }, async () => {
  // Playwright switches off that the browser stores pages for "back".
  const other = await open({ browser: { ignoreDefaultArgs: ['--disable-back-forward-cache'] } });
  try {
    const page = await other.page();
    await comes(() => other.mock.readers, 1);
    await page.evaluate(() => (globalThis.stored = true));
    await page.goto(`${other.address}/speed.html`);
    await comes(() => other.mock.readers, 0);
    // `goBack` waits for a load that does not take place.
    await page.evaluate(() => void setTimeout(() => history.back()));
    await comes(() => other.mock.readers, 1);
    // Restored, not loaded again.
    await page.waitForFunction(() => globalThis.stored, undefined, { timeout: 10_000 });
    await page.getByText('live', { exact: true }).waitFor();
    other.quiet();
  } finally {
    await other.close();
  }
});
