// The seed's complete example, with only the import line changed, in a page that the gateway serves.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Browser, ConsoleMessage, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openBrowser } from './support/chromium.js';
import { SeedGateway } from './support/seed-gateway.js';
import { Site } from './support/site.js';

const GATEWAY = 'http://localhost:8000'; // the example names it, and the browser is told where that is
const EXAMPLE = readFileSync(new URL('seed-example.js.txt', import.meta.url), 'utf8');
const SEED_SHA256 = '70ad62c74f9a925189b9ba4e85bac55417c24e80071aa2e67a30aca1b9a5e5f8';

let gateway: SeedGateway;
let site: Site;
let browser: Browser;

beforeAll(async () => {
  [gateway, site] = await Promise.all([SeedGateway.start(), Site.start()]);
  browser = await openBrowser(`MAP localhost:8000 ${new URL(gateway.url).host}`);
});

afterAll(async () => {
  await Promise.all([browser?.close(), site?.close(), gateway?.close()]);
});

/** A page of the gateway's own origin in a browser that its link has signed in. */
async function signedIn(): Promise<Page> {
  const context = await browser.newContext({ locale: 'pt-BR', permissions: ['clipboard-read', 'clipboard-write'] });
  const page = await context.newPage();
  await page.goto(`${GATEWAY}${await gateway.signInPath()}`);
  await page.goto(`${GATEWAY}/health`);
  return page;
}

/** Runs a module in the page, which finds the SDK under its name; what it logged, up to a line that begins so. */
async function run(page: Page, module: string, upTo: string): Promise<string[]> {
  const said: ConsoleMessage[] = [];
  page.on('console', (message) => message.type() === 'log' && said.push(message));
  page.on('pageerror', (error) => expect.unreachable(String(error)));
  const predicate = (message: ConsoleMessage) => message.text().startsWith(upTo);
  const ended = page.waitForEvent('console', { predicate, timeout: 15_000 });
  const imports = { 'handspan/agentflow': `${site.url}/agentflow.js` };
  await page.addScriptTag({ type: 'importmap', content: JSON.stringify({ imports }) });
  await page.addScriptTag({ type: 'module', content: module });
  await ended;
  return Promise.all(said.map(async (message) => (await shown(message)).join(' ')));
}

/** What was logged, whole: the browser itself shortens it. */
function shown(message: ConsoleMessage): Promise<string[]> {
  const told = message.args().map((value) => value.jsonValue());
  return Promise.all(
    told.map(async (one) => (typeof (await one) === 'string' ? await one : JSON.stringify(await one))),
  );
}

test('the example is the one of the seed, to the letter', () => {
  const ours = EXAMPLE.replace("'handspan/agentflow'", "'@10xscale/agentflow-client'");
  expect(createHash('sha256').update(ours).digest('hex')).toBe(SEED_SHA256);
});

test('the complete example of the seed runs to its end', async () => {
  const page = await signedIn();
  await page.evaluate(() => navigator.clipboard.writeText('three eggs'));
  const said = await run(page, EXAMPLE, 'Iterations:');
  expect(said.at(-1)).toBe('Iterations: 2');
  expect(said[0]).toContain('three eggs');
  expect(said[0]).toContain('pt-BR');
});

test('without the cookie it is refused, in words that say what to do', async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`${GATEWAY}/health`);
  const failed = `${EXAMPLE.split('// 1.')[0]}client.invoke('Hello').catch((e) => console.log('refused', e.name, e.status, e.message));`;
  const said = await run(page, failed, 'refused');
  expect(said.at(-1)).toMatch(/^refused AuthenticationError 401 \S/);
});
