// The generator as people use it: the newcomer, the one without a mouse, the one who errs, two at once, a server that goes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { checked, comes, draft, frames, lacking, open, startSomething } from './harness.mjs';

const skip = lacking();
const options = { skip, timeout: 60_000 };
let site;

before(async () => {
  if (!skip) site = await open();
});
after(() => site?.close());
afterEach(async () => {
  await site?.clear();
  for (const test of site?.mock.tests ?? []) if (test.state !== 'ended') test.end();
});

test('a newcomer starts a test with one key, and sees figures with units', options, async () => {
  const page = await site.page();
  await page.getByLabel('Host where').waitFor();
  await comes(() => page.evaluate(() => document.activeElement?.id), 'quick-host');
  await page.keyboard.press('Enter');
  const table = page.getByRole('table', { name: 'Connections' });
  await table.getByText('running').waitFor();
  await table.getByText('Mbit/s').first().waitFor();
  assert.equal(site.mock.tests.length, 1);
  assert.equal(site.mock.tests[0].host, '127.0.0.1');
  await page.getByRole('button', { name: '■ Stop all' }).click();
  await table.getByText('finished').waitFor();
  await page.getByRole('link', { name: 'Open result' }).waitFor();
  site.quiet();
});

test('an application is chosen by its profile, and added to a plan', options, async () => {
  const page = await site.page();
  await page.getByLabel('Host where').fill('192.0.2.7');
  await page.getByLabel('Application').selectOption({ label: 'VoIP call, G.711, 20 ms' });
  await page.getByText('ITU-T G.711: 64 kbit/s.').waitFor();
  await page.getByRole('button', { name: '▶ Start' }).click();
  const table = page.getByRole('table', { name: 'Connections' });
  await table.getByRole('row', { name: /caller/ }).waitFor();
  await table.getByRole('row', { name: /callee/ }).waitFor();
  const plan = () => page.evaluate(() => JSON.parse(localStorage.getItem('weir.draft')).connection);
  assert.deepEqual((await plan()).map((one) => [one.direction, one.voice, one.header]), [['forward', 'g711-plc', 'rtp'], ['reverse', 'g711-plc', 'rtp']]);

  await page.getByRole('button', { name: '+ Connection' }).click();
  await page.getByRole('dialog', { name: 'Add a connection' }).getByLabel('Application').selectOption('voip-g711');
  await comes(async () => (await plan()).map((one) => one.name).join(), 'caller,callee,caller-2,callee-2');
  site.quiet();
});

test('everything is done by keys: add, edit, copy, start one, remove, undo', options, async () => {
  const page = await site.page();
  await page.keyboard.press('Enter');
  const table = page.getByRole('table', { name: 'Connections' });
  await table.getByText('running').waitFor();
  // From the host's field through the toolbar into the table.
  await page.locator('body').press('Tab');
  const rows = () => table.locator('tbody tr').count();
  await table.locator('tbody tr').first().focus();
  await page.keyboard.press('c');
  await page.waitForFunction(() => document.querySelectorAll('tbody tr[data-index]').length === 2);
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction(() => document.activeElement?.getAttribute('data-index') === '1');
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: /Connection tcp-2/ });
  await dialog.waitFor();
  await dialog.getByLabel('Rate', { exact: true }).fill('5M');
  await page.keyboard.press('Escape');
  await table.getByText('5 Mbit/s', { exact: true }).waitFor();
  await table.locator('tbody tr').nth(1).focus();
  await page.keyboard.press('x');
  await table.locator('tbody tr').nth(1).getByText('running').waitFor();
  const alone = site.mock.tests[0];
  assert.deepEqual(alone.flows.map((flow) => flow.name), ['tcp-2']);
  await table.locator('tbody tr').nth(1).focus();
  await page.keyboard.press('Delete');
  await comes(rows, 1);
  await page.keyboard.press('u');
  await page.waitForFunction(() => document.querySelectorAll('tbody tr[data-index]').length === 2);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.getByLabel('Single keys are shortcuts').uncheck();
  await page.keyboard.press('Escape');
  await page.keyboard.press('3');
  await frames(page);
  assert.match(page.url(), /\/$|generator/, 'a key that is off did something');
  site.quiet();
});

test('Tab reaches every control, in sight', options, async () => {
  const page = await site.page();
  await startSomething(page);
  await page.reload();
  await page.getByText('running').first().waitFor();
  const seen = new Set();
  for (let step = 0; step < 60; step += 1) {
    await page.keyboard.press('Tab');
    const now = await page.evaluate(() => {
      const one = document.activeElement;
      if (one === null || one === document.body) return undefined;
      const box = one.getBoundingClientRect();
      const style = getComputedStyle(one);
      return { name: one.getAttribute('aria-label') ?? one.textContent?.trim().slice(0, 40), seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight, ring: style.outlineStyle !== 'none' };
    });
    if (now === undefined) break;
    assert.ok(now.seen, `${now.name} has the focus out of sight`);
    assert.ok(now.ring, `${now.name} does not show the focus`);
    seen.add(now.name);
  }
  for (const name of ['Skip to content', 'Generator', 'System', 'Save', '+ Connection', 'Start tcp', 'Edit tcp', 'Curves', 'Throughput']) {
    assert.ok([...seen].some((one) => one.replace('Stop tcp', 'Start tcp').startsWith(name)), `${name} was not reached: ${[...seen].join(' | ')}`);
  }
  site.quiet();
});

test('a refused value is shown next to its field, with the message of the server', options, async () => {
  const page = await site.page();
  await startSomething(page);
  await page.getByRole('button', { name: 'Edit tcp' }).click();
  const field = page.getByLabel('Rate', { exact: true });
  await field.fill('fast');
  const words = page.getByRole('dialog').getByRole('alert');
  await words.waitFor();
  assert.match(await words.innerText(), /fast; accepted: a rate such as 10M/);
  await comes(() => field.getAttribute('aria-invalid'), 'true');
  const ids = async () => (await field.getAttribute('aria-describedby'))?.split(' ') ?? [];
  await comes(async () => (await ids()).includes(await words.getAttribute('id')), true, 'the words are not tied to the field');
  await field.fill('10M');
  await words.waitFor({ state: 'detached' });
  site.quiet();
});

test('a refused start is shown next to the host, and starts nothing', options, async () => {
  const page = await site.page({ tolerate: (words) => words.includes('422') });
  await page.getByLabel('Host where').fill('no such host');
  const before = site.mock.tests.length;
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByText('no such host; accepted: a name or address').first().waitFor();
  // What is checked of the plan meanwhile takes nothing away.
  await checked(page);
  await comes(() => page.getByLabel('Host', { exact: true }).getAttribute('aria-invalid'), 'true');
  assert.equal(site.mock.tests.length, before);
  site.quiet();
});

test('an unreachable host is reported, and the line shows the failure', options, async () => {
  const page = await site.page();
  await page.getByLabel('Host where').fill('closed.example');
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByText('closed.example: connection refused').first().waitFor();
  await page.getByRole('table', { name: 'Connections' }).getByText('failed').waitFor();
  site.quiet();
});

test('a connection that waits is started within its test, one that ended by itself', options, async () => {
  const page = await site.page();
  await page.evaluate(() => localStorage.setItem('weir.draft', JSON.stringify({ schema: 'weir.plan/1', connection: [{ name: 'now', transport: 'udp' }, { name: 'later', transport: 'udp', autostart: false }] })));
  await page.reload();
  await page.getByRole('button', { name: '▶ Start all' }).click();
  const later = page.getByRole('row', { name: /^later/ });
  await later.getByText('not started').waitFor();
  const before = site.mock.tests.length;
  await page.getByRole('button', { name: 'Start later' }).click();
  await later.getByText('running').waitFor();
  assert.equal(site.mock.tests.length, before);
  await page.getByRole('button', { name: 'Stop later' }).click();
  await later.getByText('finished').waitFor();
  await page.getByRole('row', { name: /^now/ }).getByText('running').waitFor();
  await page.getByRole('button', { name: 'Start later' }).click();
  await later.getByText('running').waitFor();
  assert.equal(site.mock.tests.length, before + 1);
  site.quiet();
});

test('a line shows the test that was started from it, not another one whose connection has its name', options, async () => {
  const page = await site.page();
  await startSomething(page);
  const row = page.getByRole('table', { name: 'Connections' }).getByRole('row', { name: /^tcp/ });
  await row.getByText('Mbit/s').first().waitFor();
  const other = site.mock.startTest({ host: '192.0.2.1', plan: { connection: [{ name: 'tcp', transport: 'udp', rate: '0' }] } });
  await comes(async () => other.intervals.length > 2, true);
  // Streams have a round trip, datagrams a jitter.
  await comes(async () => (await row.innerText()).includes('tcp →'), true);
  const figures = async () => (await row.getByRole('cell').allInnerTexts()).slice(-4, -1).map((cell) => cell.trim().replace(/[\d.]+\s*/, ''));
  await comes(figures, ['–', '–', 'ms']);
  site.mock.tests.find((one) => one !== other && one.state === 'running').end();
  await row.getByText('finished').waitFor();
  // The figures of the other test keep coming.
  const before = other.intervals.length;
  await comes(() => other.intervals.length > before + 2, true);
  await frames(page);
  assert.deepEqual(await figures(), ['–', '–', 'ms']);
  await row.getByText('finished').waitFor();
  // Another page has no line for it until it watches the test.
  const second = await site.page();
  await second.evaluate(() => localStorage.setItem('weir.draft', JSON.stringify({ schema: 'weir.plan/1', connection: [{ name: 'tcp', transport: 'udp' }] })));
  await second.reload();
  await second.getByRole('table', { name: 'Connections' }).getByRole('row', { name: /^tcp/ }).getByText('ready').waitFor();
  await second.getByRole('tab', { name: /^Tests/ }).click();
  await second.getByRole('button', { name: 'Watch' }).click();
  await second.getByRole('table', { name: 'Connections' }).getByRole('row', { name: /^tcp/ }).getByText('running').waitFor();
  site.quiet();
});

test('withheld figures are awaited, and an unreachable peer is reported', options, async () => {
  const page = await site.page();
  await startSomething(page);
  const row = page.getByRole('table', { name: 'Connections' }).getByRole('row', { name: /^tcp/ });
  await row.getByText('Mbit/s').first().waitFor();
  const [test] = site.mock.tests;
  test.withheld = true;
  await row.getByText('waiting', { exact: true }).waitFor();
  assert.equal(await page.getByText(/No figures from the far end/).count(), 0);
  test.peer_unreachable_since_seconds = 3.25;
  site.mock.told('tests', test);
  await row.getByText('no figures', { exact: true }).waitFor();
  await page.getByLabel('Total').getByText('No figures from the far end since 3.3 s').waitFor();
  delete test.peer_unreachable_since_seconds;
  test.withheld = false;
  site.mock.told('tests', test);
  await row.getByText('running', { exact: true }).waitFor();
  assert.equal(await page.getByText(/No figures from the far end/).count(), 0);
  site.quiet();
});

test('the curves take the mouse while figures come and the metric changes', options, async () => {
  const page = await site.page();
  await startSomething(page);
  const chart = page.getByRole('group', { name: / over time$/ });
  await chart.waitFor();
  const box = await chart.boundingBox();
  for (const metric of ['Sent', 'Round trip, last', 'Loss', 'Throughput', 'Packets', 'Sent']) {
    await page.getByRole('tab', { name: metric, exact: true }).click();
    await page.getByRole('group', { name: `${metric} over time` }).waitFor();
    for (let step = 0; step < 12; step += 1) {
      await page.mouse.move(box.x + (box.width * step) / 12, box.y + box.height / 2);
      await frames(page);
      await page.mouse.move(box.x + box.width / 2, box.y - 60);
      await frames(page);
    }
  }
  site.quiet();
});

test('a plan is stored and loaded, and a conflict is reported', options, async () => {
  const first = await site.page({ tolerate: (words) => words.includes('412') });
  await startSomething(first);
  await first.getByRole('button', { name: 'Save', exact: true }).click();
  await first.getByRole('textbox', { name: 'Name' }).fill('evening');
  await first.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await first.getByText('Saved as "evening".').waitFor();

  const second = await site.page({ tolerate: (words) => words.includes('412') });
  await second.getByRole('button', { name: /Unnamed plan/ }).click();
  await second.getByRole('button', { name: /evening/ }).first().click();
  await second.getByRole('button', { name: 'Copy tcp' }).click();
  await second.getByRole('button', { name: 'Save', exact: true }).click();
  await second.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await second.getByText('Saved as "evening".').waitFor();

  await first.getByText(/The plan "evening" was changed by/).waitFor();
  await first.getByRole('button', { name: 'Save', exact: true }).click();
  await first.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await first.getByText(/saved a plan with this name first/).waitFor();
  assert.equal(site.mock.plans.get('evening').plan.connection.length, 2);
  await first.getByRole('button', { name: 'Replace theirs' }).click();
  await first.getByText('Saved as "evening".').last().waitFor();
  assert.equal(site.mock.plans.get('evening').plan.connection.length, 1);
  site.quiet();
});

test('a plan is removed as listed, and a used name is not overwritten', options, async () => {
  const page = await site.page({ tolerate: (words) => words.includes('412') });
  await startSomething(page);
  const keep = (connections) => site.mock.plans.set('theirs', { plan: { schema: 'weir.plan/1', connection: connections }, etag: `x${connections.length}`, at: new Date().toISOString(), by: '192.0.2.9' });
  keep([{ name: 'a' }]);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('theirs');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByText(/192\.0\.2\.9 saved a plan with this name first/).waitFor();
  // A third is faster than "Replace theirs".
  keep([{ name: 'a' }, { name: 'b' }]);
  const refused = page.waitForResponse((answer) => answer.status() === 412);
  await page.getByRole('button', { name: 'Replace theirs' }).click();
  await refused;
  await frames(page);
  assert.equal(site.mock.plans.get('theirs').plan.connection.length, 2);
  await page.getByRole('button', { name: 'Replace theirs' }).click();
  await page.getByText('Saved as "theirs".').waitFor();
  assert.equal(site.mock.plans.get('theirs').plan.connection.length, 1);

  await page.getByRole('button', { name: /^theirs/ }).click();
  const remove = page.getByRole('button', { name: 'Remove plan theirs' });
  await remove.waitFor();
  keep([{ name: 'a' }, { name: 'b' }, { name: 'c' }]);
  await remove.click();
  await page.getByRole('dialog').getByText(/192\.0\.2\.9 has changed the plan, so it was not removed/).waitFor();
  assert.ok(site.mock.plans.has('theirs'));
  await remove.click();
  await remove.waitFor({ state: 'detached' });
  assert.ok(!site.mock.plans.has('theirs'));
  site.quiet();
});

test('after a restart of the server the page reconnects and says so', options, async () => {
  const lost = (words) => /ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to load|network/i.test(words);
  const page = await site.page({ tolerate: lost });
  await startSomething(page);
  await site.mock.stop();
  await page.getByText('No connection to the server').waitFor();
  site.mock.instance = 'restarted';
  site.mock.tests = [];
  await site.mock.start(site.mock.port);
  await page.getByText('The server was restarted').waitFor({ timeout: 20_000 });
  await page.getByText('No connection to the server').waitFor({ state: 'detached' });
  // The plan is still there, and can be started again.
  await page.getByRole('button', { name: '▶ Start all' }).click();
  await page.getByRole('table', { name: 'Connections' }).getByText('running').waitFor();
  site.quiet();
});

test('a server that wants a token asks for it, and refuses a wrong one', options, async () => {
  site.mock.token = 'right';
  const page = await site.page({ tolerate: (words) => words.includes('401') });
  const dialog = page.getByRole('dialog', { name: 'This server requires a token' });
  await dialog.getByLabel('Token').fill('wrong');
  await dialog.getByRole('button', { name: 'Open' }).click();
  await dialog.getByText('the token is not known').waitFor();
  await dialog.getByLabel('Token').fill('right');
  await dialog.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('status').getByText('live').waitFor();
  assert.equal(await page.evaluate(() => document.cookie), '');
  delete site.mock.token;
  site.quiet();
});

test('a test starts from a host of a lab when there is one', options, async () => {
  site.mock.labs = [{ name: 'lab1', hosts: [{ name: 'a', ipv4: '10.77.0.1', ipv6: 'fd00::1' }], nodes: ['a', 'b'] }];
  const bodies = [];
  const page = await site.page();
  page.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/tests') && bodies.push(request.postDataJSON()));
  const from = page.getByRole('combobox', { name: /^from/ });
  await from.waitFor();
  await startSomething(page);
  await page.getByRole('table', { name: 'Connections' }).getByText('Mbit/s').first().waitFor();
  await from.selectOption('lab1/a');
  await page.getByRole('button', { name: '■ Stop all' }).click();
  await page.getByRole('table', { name: 'Connections' }).getByText('finished').waitFor();
  await page.getByRole('button', { name: '▶ Start all' }).click();
  await page.getByRole('table', { name: 'Connections' }).getByText('running').waitFor();
  assert.deepEqual(bodies.map((body) => body.from), [undefined, 'lab1/a']);
  await page.reload();
  await comes(() => from.inputValue(), 'lab1/a');
  // A host that is gone is not asked for.
  site.mock.labs = [];
  await page.reload();
  await page.getByRole('table', { name: 'Connections' }).getByText('running').waitFor();
  await comes(() => page.evaluate(() => localStorage.getItem('weir.from')), '');
  site.quiet();
});

test('who opens the page later sees what was warned of, once', options, async () => {
  const page = await site.page();
  await startSomething(page);
  const warned = page.getByRole('button', { name: '1 warnings: show them' });
  await warned.waitFor();
  await page.reload();
  await warned.waitFor();
  await warned.click();
  await page.getByText('a processor of this host was 100 % busy').waitFor();
  site.quiet();
});

test('a rate and a length that were asked for have their units', options, async () => {
  const page = await site.page();
  await page.evaluate(() => localStorage.setItem('weir.draft', JSON.stringify({ schema: 'weir.plan/1', connection: [{ name: 'set', transport: 'udp', rate: '10M', payload: '8K' }, { name: 'unset', transport: 'udp' }] })));
  await page.reload();
  await page.getByRole('row', { name: /^set/ }).getByText('10 Mbit/s').waitFor();
  await page.getByRole('row', { name: /^set/ }).getByText('8 KiB').waitFor();
  const unset = page.getByRole('row', { name: /^unset/ });
  await comes(() => unset.getByText('default').count(), 2);
  await page.getByRole('button', { name: '▶ Start all' }).click();
  // What the program made of it is known once it runs.
  await unset.getByText('1 Mbit/s', { exact: true }).waitFor();
  site.quiet();
});

test('a reload keeps the plan and finds the running test again', options, async () => {
  const page = await site.page();
  await startSomething(page);
  await page.reload();
  await page.getByRole('table', { name: 'Connections' }).getByText('Mbit/s').first().waitFor();
  site.quiet();
});

/** A page whose plan has these connections, none of which runs. */
async function planned(connection, more = {}) {
  const page = await site.page(more);
  await page.evaluate((plan) => localStorage.setItem('weir.draft', JSON.stringify(plan)), { schema: 'weir.plan/1', connection });
  await page.reload();
  return page;
}

const FOUR = [
  { name: 'voice', transport: 'udp', rate: '50k', payload: '172' },
  { name: 'video-conference-of-the-east-wing', transport: 'udp', rate: '4M' },
  { name: 'bulk', transport: 'tcp' },
  { name: 'web', transport: 'tcp', rate: '1G' },
];

const namesOf = (page) => page.getByRole('table', { name: 'Connections' }).getByRole('rowheader').allInnerTexts();

test('lines are sorted, filtered and saved as shown', options, async () => {
  const page = await planned(FOUR);
  const head = page.getByRole('button', { name: 'Requested rate' });
  await head.click();
  await comes(() => namesOf(page), ['voice', 'video-conference-of-the-east-wing', 'web', 'bulk']);
  assert.equal(await page.getByRole('columnheader', { name: 'Requested rate' }).getAttribute('aria-sort'), 'ascending');
  await head.click();
  await comes(() => namesOf(page), ['web', 'video-conference-of-the-east-wing', 'voice', 'bulk']);
  await page.getByLabel('Filter the connections').fill('udp');
  await comes(() => namesOf(page), ['video-conference-of-the-east-wing', 'voice']);
  await page.getByText('2 of 4').waitFor();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'CSV' }).click();
  const rows = readFileSync(await (await download).path(), 'utf8').trim().split('\r\n').map((row) => row.split(','));
  assert.deepEqual(rows.map((row) => row[rows[0].indexOf('name')]), ['name', 'video-conference-of-the-east-wing', 'voice']);
  assert.deepEqual(rows.map((row) => row[rows[0].indexOf('requested_rate')]), ['requested_rate', '4M', '50k']);
  await page.getByLabel('Filter the connections').fill('');
  await head.click();
  await comes(() => namesOf(page), FOUR.map((one) => one.name));
  site.quiet();
});

test('names are shown in full where there is room, and columns can be chosen', options, async () => {
  const page = await planned(FOUR);
  const cut = () => page.locator('tbody [data-column], thead button').evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent));
  await comes(() => namesOf(page).then((all) => all.length), 4);
  assert.deepEqual(await cut(), []);
  assert.equal(await page.locator('.port').evaluate((port) => port.scrollWidth > port.clientWidth), false);
  await page.getByRole('button', { name: 'Columns' }).click();
  const dialog = page.getByRole('dialog', { name: 'Columns' });
  await dialog.getByLabel('Content').check();
  await dialog.getByLabel('Delay').uncheck();
  await page.keyboard.press('Escape');
  await page.getByRole('columnheader', { name: 'Content' }).waitFor();
  assert.equal(await page.getByRole('columnheader', { name: 'Delay' }).count(), 0);
  await page.reload();
  await page.getByRole('columnheader', { name: 'Content' }).waitFor();
  await page.getByRole('button', { name: 'Columns' }).click();
  await dialog.getByRole('button', { name: 'As many as fit' }).click();
  await page.getByRole('columnheader', { name: 'Delay' }).waitFor();
  site.quiet();
});

test('a setting is edited in its cell, also of several lines, and undone in one step', options, async () => {
  const page = await planned(FOUR, { width: 1920 });
  const plan = () => page.evaluate(() => JSON.parse(localStorage.getItem('weir.draft')).connection);
  const line = (name) => page.getByRole('table', { name: 'Connections' }).getByRole('row', { name: new RegExp(`^${name}`) });
  const rate = (name) => line(name).locator('[data-column=requested_rate]');
  // The first click selects, the next one edits; Tab goes on to the next setting.
  await rate('voice').click();
  await rate('voice').click();
  const field = page.getByLabel('Requested rate of voice');
  await field.fill('64k');
  await field.press('Shift+Tab');
  await page.getByLabel('Payload of voice').press('Escape');
  await comes(async () => (await plan())[0].rate, '64k');
  assert.equal((await plan())[0].payload, '172');
  await comes(() => page.evaluate(() => document.activeElement?.getAttribute('data-index')), '0');
  // By keyboard: F2 edits the name.
  await page.keyboard.press('F2');
  await page.getByLabel('Name of voice').fill('speech');
  await page.keyboard.press('Enter');
  await line('speech').waitFor();
  // A refused value is marked at its place.
  await rate('speech').click();
  await page.getByLabel('Requested rate of speech').fill('fast');
  await page.keyboard.press('Enter');
  await line('speech').getByText('refused').waitFor();
  await comes(async () => /accepted/.test((await rate('speech').getAttribute('title')) ?? ''), true);
  await page.keyboard.press('u');
  await comes(async () => (await plan())[0].rate, '64k');

  await line('speech').locator('td.state').click();
  await line('bulk').locator('td.state').click({ modifiers: ['Shift'] });
  await page.getByText('3 selected').waitFor();
  // A look into one of them changes nothing in the others.
  await rate('bulk').click();
  await page.getByLabel('Requested rate of bulk and 2 more').waitFor();
  await page.getByRole('heading', { name: 'Generator' }).click();
  await page.getByLabel('Requested rate of bulk and 2 more').waitFor({ state: 'detached' });
  assert.deepEqual((await plan()).map((one) => one.rate), ['64k', '4M', undefined, '1G']);
  await rate('bulk').click();
  await page.getByLabel('Requested rate of bulk and 2 more').fill('7M');
  await page.keyboard.press('Enter');
  await comes(async () => (await plan()).map((one) => one.rate), ['7M', '7M', '7M', '1G']);
  await page.getByLabel('Setting of the selected connections').selectOption('DSCP');
  await page.getByLabel('Value for the selected connections').fill('EF');
  await page.getByRole('button', { name: 'Set', exact: true }).click();
  await comes(async () => (await plan()).map((one) => one.tos), [184, 184, 184, undefined]);
  await line('web').focus();
  await page.keyboard.press('u');
  await comes(async () => (await plan()).map((one) => one.tos), [undefined, undefined, undefined, undefined]);
  await page.keyboard.press('u');
  await comes(async () => (await plan()).map((one) => one.rate), ['64k', '4M', undefined, '1G']);
  site.quiet();
});

test('the parts below each other are resized by keys and by the mouse, and stay so', options, async () => {
  const page = await planned(FOUR);
  const bar = page.getByRole('separator');
  const height = async () => Math.round((await page.locator('.lower > .body').boundingBox()).height);
  const before = await height();
  await bar.focus();
  await page.keyboard.press('ArrowUp');
  await comes(height, before + 24);
  const box = await bar.boundingBox();
  await page.mouse.move(box.x + 100, box.y + 5);
  await page.mouse.down();
  await page.mouse.move(box.x + 100, box.y + 65, { steps: 4 });
  await page.mouse.up();
  await comes(height, before + 24 - 60);
  await page.reload();
  await comes(height, before + 24 - 60);
  await bar.dblclick();
  await comes(height, before);
  site.quiet();
});

test('the tab and the figure below the table are in the address', options, async () => {
  const page = await planned(FOUR);
  const address = () => new URL(page.url()).hash;
  const isSelected = (name) => page.getByRole('tab', { name, exact: true }).getAttribute('aria-selected');
  await page.getByRole('tab', { name: 'Wall' }).click();
  await page.getByRole('tab', { name: 'Jitter, last' }).click();
  await comes(address, '#/generator?tab=wall&metric=jitter');
  await page.reload();
  await comes(() => isSelected('Wall'), 'true');
  await comes(() => isSelected('Jitter, last'), 'true');
  // What is usual is not in the address.
  await page.getByRole('tab', { name: 'Curves' }).click();
  await comes(address, '#/generator?metric=jitter');
  // Other views get nothing of it.
  await page.getByRole('link', { name: 'Runs' }).click();
  await comes(address, '#/runs');
  site.quiet();
});

test('an advanced field that is refused is shown', options, async () => {
  const page = await planned(FOUR);
  await page.route('**/api/v1/validate/plan', (route) => {
    const errors = JSON.stringify(route.request().postDataJSON()).includes('much') ? [{ field: '/connection/2/window', message: 'much is no size' }] : [];
    return route.fulfill({ json: { valid: errors.length === 0, errors, notes: [] } });
  });
  await page.getByRole('button', { name: 'Edit bulk' }).click();
  const dialog = page.getByRole('dialog', { name: 'Connection bulk' });
  // The name is first, and rare options are closed.
  await comes(() => dialog.getByRole('textbox').first().inputValue(), 'bulk');
  const buffer = dialog.getByLabel('Socket buffer');
  assert.equal(await buffer.isVisible(), false);
  await dialog.getByText('Advanced').click();
  await buffer.fill('much');
  await comes(() => buffer.getAttribute('aria-invalid'), 'true');
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Edit bulk' }).click();
  await buffer.waitFor();
  site.quiet();
});

test('a plan is saved as a file and opened from one; its name survives a reload', options, async () => {
  const page = await planned(FOUR);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('kept-name');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'kept-name ▾' }).waitFor();
  await page.reload();
  // It has not been changed since.
  const menu = page.getByRole('button', { name: 'kept-name ▾' });
  await menu.click();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save as a file' }).click();
  const saved = await download;
  assert.equal(saved.suggestedFilename(), 'kept-name.toml');
  const text = readFileSync(await saved.path(), 'utf8');
  assert.match(text, /^name = "voice"$/m);
  const file = (content) => ({ name: 'plan.toml', mimeType: 'application/toml', buffer: Buffer.from(content) });
  const dialog = page.getByRole('dialog', { name: 'Plans' });
  await dialog.getByLabel('Open a file').setInputFiles(file('schema = ?'));
  await dialog.getByRole('alert').getByText('plan.toml').waitFor();
  assert.equal((await namesOf(page)).length, 4);
  await dialog.getByLabel('Open a file').setInputFiles(file(text.replace('"voice"', '"from-a-file"')));
  await comes(() => namesOf(page).then((all) => all[0]), 'from-a-file');
  await page.getByRole('button', { name: 'Unnamed plan • ▾' }).waitFor();
  await page.keyboard.press('u');
  await comes(() => namesOf(page).then((all) => all[0]), 'voice');
  site.mock.plans.clear();
  site.quiet();
});

test('each connection has a chart on the wall', options, async () => {
  const page = await site.page();
  const plan = { schema: 'weir.plan/1', connection: FOUR };
  await draft(page, plan, site.mock.startTest({ host: '127.0.0.1', plan }));
  await page.getByRole('tab', { name: 'Wall' }).click();
  const wall = page.getByRole('list', { name: 'Throughput of each connection' });
  await wall.getByRole('group', { name: 'voice' }).waitFor();
  await comes(() => wall.getByRole('listitem').count(), 4);
  await page.getByRole('tab', { name: 'Delay', exact: true }).click();
  await page.getByRole('list', { name: 'Delay of each connection' }).getByRole('group', { name: 'voice' }).waitFor();
  await page.getByRole('row', { name: /^bulk/ }).locator('td.state').click();
  await comes(() => page.getByRole('list', { name: 'Delay of each connection' }).getByRole('listitem').count(), 1);
  site.quiet();
});

test('on a phone a connection is a card with its figures and actions', options, async () => {
  const page = await site.page({ width: 390, height: 844 });
  const plan = { schema: 'weir.plan/1', connection: [...FOUR, { name: 'users', transport: 'udp', rate: '1M', count: 300 }] };
  await draft(page, plan, site.mock.startTest({ host: '127.0.0.1', plan }));
  const cards = page.getByRole('list', { name: 'Connections' });
  const voice = cards.getByRole('listitem').filter({ hasText: 'voice' });
  await voice.getByText('running').waitFor();
  await voice.getByText('Mbit/s').first().waitFor();
  assert.ok((await cards.locator('[data-index]').count()) < 80);
  await page.getByLabel('Sort by').selectOption('Requested rate');
  await comes(async () => (await cards.locator('[data-index]').first().innerText()).includes('voice'), true);
  await voice.getByRole('button', { name: 'Stop voice' }).click();
  await voice.getByText('finished').waitFor();
  await voice.getByRole('button', { name: 'Edit voice' }).click();
  await page.getByRole('dialog', { name: 'Connection voice' }).waitFor();
  site.quiet();
});

test('a test that is stopped before its first figures has not failed', options, async () => {
  const page = await site.page();
  site.mock.hertz = 0.01;
  await startSomething(page);
  await page.getByRole('button', { name: '■ Stop all' }).click();
  await page.getByRole('table', { name: 'Connections' }).getByText('stopped').waitFor();
  await page.getByLabel('Total').getByText(/^Stopped by you/).waitFor();
  assert.equal(await page.getByLabel('Total').getByText('Failed').count(), 0);
  site.mock.hertz = 4;
  site.quiet();
});
