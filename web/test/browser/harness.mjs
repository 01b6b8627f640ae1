// One browser and one mock for a file of tests; every page is watched for errors and for requests to elsewhere.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { chromium } from 'playwright-core';
import { Mock } from '../mock/server.mjs';

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** Why these tests can't run here; undefined when they can. In CI they have to. */
export function lacking() {
  if (existsSync(CHROMIUM)) return undefined;
  if (process.env.CI) throw new Error(`${CHROMIUM} is not there, and CI is set`);
  return `SKIPPED: there is no ${CHROMIUM}`;
}

/** A browser on pages of `address`; `executablePath` when it is to run elsewhere than here, `more` are further options of its launch. */
export async function launch(address, executablePath = CHROMIUM, more = {}) {
  // A temporary profile of its own; as root Chromium wants no sandbox.
  const browser = await chromium.launch({ executablePath, headless: true, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [], ...more });
  const faults = [];

  /** A page of its own, with an empty storage. */
  async function page({ width = 1440, height = 900, scheme = 'light', hash = '', tolerate = () => false, file = 'index.html' } = {}) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce' });
    const made = await context.newPage();
    const note = (words) => tolerate(words) || faults.push(words);
    made.on('pageerror', (error) => note(`error: ${error.stack ?? error.message}`));
    made.on('console', (message) => ['error', 'warning'].includes(message.type()) && note(`console: ${message.text()} ${message.location().url}`));
    made.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(`${address}/`) && !url.startsWith('blob:')) note(`request to elsewhere: ${url}`);
    });
    await made.goto(`${address}/${file === 'index.html' ? '' : file}${hash}`);
    return made;
  }

  return {
    address,
    browser,
    page,
    /** Nothing went wrong on any page since the last call. */
    quiet() {
      assert.deepEqual(faults.splice(0), []);
    },
    faults,
    /** Closes all pages: what one test left open is not to speak in the next. */
    async clear() {
      await Promise.all(browser.contexts().map((one) => one.close()));
    },
    close: () => browser.close(),
  };
}

/** The same with a mock behind it. */
export async function open({ mock: options = {}, browser = {} } = {}) {
  const mock = new Mock(options);
  const site = await launch(await mock.start(), CHROMIUM, browser);
  return {
    ...site,
    mock,
    async close() {
      await site.close();
      await mock.stop();
    },
  };
}

/**
 * Reads until the value is `wanted`, since the page shows an event only in its next turn; after 10 s, or `seconds`, it fails with the difference. Only for
 * values that are expected to appear.
 */
export async function comes(read, wanted, words, seconds = 10) {
  let seen = await read();
  for (const end = Date.now() + seconds * 1000; Date.now() < end && !isDeepStrictEqual(seen, wanted); seen = await read()) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.deepEqual(seen, wanted, words);
}

/** Waits until the page has drawn what its events so far changed. */
export async function frames(page) {
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

/** Waits until the server has checked the generator's plan as it is. */
export async function checked(page) {
  await page.locator('[data-plan="checked"]').waitFor();
}

/** Looks again and again, for as long as a page may take to show something, that there is nothing of it. */
export async function never(locator, words) {
  for (const end = Date.now() + 400; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 40))) {
    assert.equal(await locator.count(), 0, words);
  }
}

/** The cells of a table's rows, without the blanks around and the ones that only break lines. */
export async function cells(table) {
  const rows = await table.getByRole('row').allInnerTexts();
  return rows.map((row) => row.split('\t').map((cell) => cell.replace(/[^\S\u202f]+/g, ' ').trim()));
}

/** Puts a plan into a page's storage, its lines bound to a test that was started with it. */
export async function draft(page, plan, test) {
  let first = 1;
  const bound = plan.connection.map(({ name, count = 1 }) => ({ name, test: test.id, first: (first += count) - count, copies: count }));
  await page.evaluate(([one, lines]) => (localStorage.setItem('weir.draft', JSON.stringify(one)), localStorage.setItem('weir.bound', JSON.stringify(lines))), [plan, bound]);
  await page.reload();
}

/** Starts connections through the page's quick start. */
export async function startSomething(page) {
  await page.getByRole('button', { name: '▶ Start' }).click();
  await page.getByRole('table', { name: 'Connections' }).getByText('running').first().waitFor();
}
