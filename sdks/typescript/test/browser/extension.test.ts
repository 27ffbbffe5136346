// The extension of examples/webmcp in a real browser: the tools of a page, without its token in the page.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { type BrowserContext, chromium, type Worker } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestGateway } from '../support/gateway.js';
import { findChromium } from './support/chromium.js';
import { Site } from './support/site.js';

declare const chrome: {
  storage: { local: { set(values: object): Promise<void> } };
  tabs: { query(wanted: object): Promise<{ id: number; url: string }[]> };
  action: { onClicked: { dispatch(tab: object): void } };
};

const SDK = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'handspan-extension-'));
let site: Site;
let gateway: TestGateway;
let context: BrowserContext;
let worker: Worker;

beforeAll(async () => {
  site = await Site.start();
  await makeExtension();
  const extension = join(folder, 'extension');
  context = await chromium.launchPersistentContext(join(folder, 'profile'), {
    executablePath: findChromium(),
    args: [
      `--disable-extensions-except=${extension}`,
      `--load-extension=${extension}`,
      '--enable-features=WebMCP',
      '--disable-features=DisableLoadExtensionCommandLineSwitch',
    ],
  });
  worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
  gateway = await TestGateway.start('--origins', worker.url().replace(/\/background\.js$/, ''));
  await worker.evaluate((values) => chrome.storage.local.set(values), { gateway: gateway.url, token: gateway.token });
});

afterAll(async () => {
  await context?.close();
  await Promise.all([gateway?.close(), site?.close()]);
  rmSync(folder, { recursive: true, force: true });
});

test('after a click, the tools of a page are tools of the agents; after the next one they are not', async () => {
  const page = await context.newPage();
  await page.goto(site.url);
  await page.evaluate(() => {
    const { modelContext } = document as unknown as { modelContext: { registerTool(tool: object): Promise<void> } };
    return modelContext.registerTool({
      name: 'heading',
      description: 'The heading of the page',
      annotations: { readOnlyHint: true },
      execute: async () => document.querySelector('h1')?.textContent,
    });
  });
  await click();
  await until(async () => (await names()).includes('device_127_0_0_1__heading'));
  const answer = await ask('/api/tools/device_127_0_0_1__heading/call', { method: 'POST', body: '{}' });
  expect(answer).toMatchObject({ status: 'success', result: 'Hello' });
  await click();
  await until(async () => !(await names()).includes('device_127_0_0_1__heading'));
  expect(await page.evaluate(() => JSON.stringify([Object.keys(globalThis), localStorage]))).not.toContain(
    gateway.token,
  );
});

/** The extension with the bundles that its README fetches; here it may read the site without a person's click. */
async function makeExtension(): Promise<void> {
  const made = join(folder, 'extension');
  cpSync(join(SDK, '../../examples/webmcp'), made, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(made, 'manifest.json'), 'utf8'));
  const allowed = {
    ...manifest,
    permissions: [...manifest.permissions, 'tabs'],
    host_permissions: ['http://127.0.0.1/*'],
  };
  writeFileSync(join(made, 'manifest.json'), JSON.stringify(allowed));
  await build({
    absWorkingDir: SDK,
    entryPoints: { device: 'src/device/index.ts', webmcp: 'src/webmcp/index.ts' },
    outdir: made,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
  });
}

/** What a click on the button of the tab does. */
async function click(): Promise<void> {
  await worker.evaluate(async () => {
    const tabs = await chrome.tabs.query({});
    chrome.action.onClicked.dispatch(tabs.find(({ url }) => url.startsWith('http')) ?? {});
  });
}

async function names(): Promise<string[]> {
  const { tools } = (await ask('/api/tools')) as { tools: { name: string }[] };
  return tools.map(({ name }) => name);
}

async function ask(path: string, init: RequestInit = {}): Promise<unknown> {
  const headers = { authorization: `Bearer ${gateway.token}`, 'content-type': 'application/json' };
  return (await fetch(gateway.url + path, { ...init, headers })).json();
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  for (const last = Date.now() + 60_000; Date.now() < last; await new Promise((resolve) => setTimeout(resolve, 50))) {
    if (await isTrue()) return;
  }
  throw new Error('in vain');
}
