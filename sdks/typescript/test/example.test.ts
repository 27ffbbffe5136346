// examples/browser_tools in a real browser, at the address where the gateway has it and with the sign-in of its page.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './browser/support/chromium.js';
import { TestGateway } from './support/gateway.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PATH = '/examples/browser_tools/';
const html = readFileSync(`${ROOT}examples/browser_tools/index.html`, 'utf8');
let gateway: TestGateway;
let browser: Browser;
let sdk: string;
let context: BrowserContext;
let page: Page;

beforeAll(async () => {
  const entryPoints = [`${ROOT}sdks/typescript/src/index.ts`];
  const made = build({ entryPoints, bundle: true, format: 'esm', target: 'es2022', write: false });
  [gateway, browser] = await Promise.all([TestGateway.start(), openBrowser()]);
  sdk = (await made).outputFiles[0]?.text ?? '';
});
afterAll(async () => {
  await browser?.close();
  await gateway?.close();
});

beforeEach(async () => {
  await context?.close();
  context = await browser.newContext({ locale: 'sv-SE' });
  context.setDefaultTimeout(10_000);
  page = await context.newPage();
  // As this checkout has them, and not as they were last built.
  await page.route(`${gateway.url}${PATH}`, (route) => route.fulfill({ contentType: 'text/html', body: html }));
  await page.route(`${gateway.url}/sdk/handspan.js`, (route) =>
    route.fulfill({ contentType: 'text/javascript', body: sdk }),
  );
});

async function signIn(): Promise<void> {
  const headers = { Authorization: `Bearer ${gateway.token}` };
  const link = await (await fetch(`${gateway.url}/api/signin`, { method: 'POST', headers })).json();
  await page.goto(link.url);
}

async function ask(words: string): Promise<void> {
  await page.getByLabel('Message to the agent').fill(words);
  await page.getByRole('button', { name: 'Ask' }).click();
}

test('who has not signed in is told how to', async () => {
  await page.goto(gateway.url + PATH);
  await ask('hello');
  await page.getByText('Please sign in first').waitFor();
});

test('a clipboard that may not be read is told to the agent', async () => {
  await context.grantPermissions(['geolocation']); // and nothing else
  await signIn();
  await page.goto(gateway.url + PATH);
  await ask('call read_clipboard');
  await page.getByText('read_clipboard failed in this page').waitFor();
  expect(JSON.parse((await page.locator('details pre').textContent()) ?? '').output).toMatchObject({
    code: 'permission_denied',
  });
});

test('the agent reads the clipboard and the locale', async () => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: gateway.url });
  await signIn();
  await page.goto(gateway.url + PATH);
  await page.evaluate(() => navigator.clipboard.writeText('words that were copied'));
  for (const tool of ['read_clipboard', 'get_browser_locale']) {
    await ask(`call ${tool}`);
    await page.getByText(`${tool} ran in this page`).waitFor();
    await page.getByText('done', { exact: true }).last().waitFor();
  }
  const calls = await page.locator('details pre').allTextContents();
  expect(calls.map((text) => JSON.parse(text).output)).toEqual([
    { text: 'words that were copied' },
    { locale: 'sv-SE', languages: ['sv-SE'] },
  ]);
  expect(await page.locator('.person').allTextContents()).toHaveLength(2);
});
