// A device in a real browser, at the real gateway of another origin.
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from '../browser/support/chromium.js';
import { TestGateway } from '../support/gateway.js';
import { DeviceSite } from './support/device-site.js';

/** What the pages have. */
interface Told {
  begun: number;
  state: { status: string; reason: string };
}
declare const Device: typeof import('../../src/device/device.js').Device;
declare const localState: typeof import('../../src/device/store.js').localState;
declare let told: Told;

let site: DeviceSite;
let gateway: TestGateway;
let browser: Browser;
let context: BrowserContext;

beforeAll(async () => {
  site = await DeviceSite.start();
  gateway = await TestGateway.start('--origins', site.url);
  browser = await openBrowser();
});

afterAll(async () => {
  await browser?.close();
  await gateway?.close();
  await site?.close();
});

beforeEach(async () => {
  context = await browser.newContext();
});

afterEach(() => context.close());

async function open(): Promise<Page> {
  const page = await context.newPage();
  await page.goto(site.url);
  await page.waitForFunction(() => typeof Device === 'function');
  return page;
}

/** A device in the page, with a tool that waits for `go` and one that gives pictures. */
async function start(page: Page, label: string, token = gateway.token): Promise<void> {
  await page.evaluate(
    ({ url, token, label }) => {
      told = { begun: 0, state: { status: '', reason: '' } };
      const device = new Device({
        url,
        token,
        label,
        state: localState(`of ${label}`),
        onState: (state) => {
          told.state = { ...state };
        },
      });
      const slow = () => {
        told.begun += 1;
        return new Promise((resolve) => globalThis.addEventListener('go', () => resolve(location.pathname)));
      };
      const kept = { read_only: true };
      const image = new Blob([new Uint8Array(10)], { type: 'image/png' });
      const large = new Blob([new Uint8Array(300_000)], { type: 'image/png' });
      device.tool({ name: 'pay', handler: slow });
      device.tool({ name: 'look', annotations: kept, handler: slow });
      device.tool({ name: 'photos', annotations: kept, handler: () => ({ output: 'two', parts: [image, large] }) });
      void device.run();
    },
    { url: gateway.url, token, label },
  );
  await page.waitForFunction(() => ['online', 'closed'].includes(told.state.status));
}

async function call(name: string): Promise<string> {
  const response = await fetch(`${gateway.url}/api/tools/${name}/call`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${gateway.token}`, 'Content-Type': 'application/json' },
    body: '{"args":{}}',
  });
  return response.text();
}

test('a token that is not known ends it in a browser too, which does not say why a socket was not opened', async () => {
  const page = await open();
  await start(page, 'stranger', 'wrong');
  const { status, reason } = await page.evaluate(() => told.state);
  expect(status).toBe('closed');
  expect(reason).toContain('401');
});

test('a page offers its tools, and its pictures come to the gateway, the large one by an upload', async () => {
  await start(await open(), 'gallery');
  const answer = JSON.parse(await call('gallery__photos'));
  expect(answer).toMatchObject({ status: 'success', result: 'two' });
  expect(JSON.stringify(answer).match(/image\/png/g)).toHaveLength(2);
});

test('a page that is reloaded in a call that changes things says that nobody knows', async () => {
  const page = await open();
  await start(page, 'shop');
  const answer = call('shop__pay');
  await page.waitForFunction(() => told.begun === 1);
  await page.reload();
  await start(page, 'shop');
  expect(await answer).toContain('unknown_outcome');
  expect(await page.evaluate(() => told.begun)).toBe(0);
});

test('a page that is reloaded in a call that only reads runs it again', async () => {
  const page = await open();
  await start(page, 'map');
  const answer = call('map__look');
  await page.waitForFunction(() => told.begun === 1);
  await page.reload();
  await start(page, 'map');
  await page.waitForFunction(() => told.begun === 1);
  await page.evaluate(() => globalThis.dispatchEvent(new Event('go')));
  expect(await answer).toContain('success');
});

test('two tabs with the same key are two devices, and each gets its own calls', async () => {
  const first = await open();
  const second = await open();
  await start(first, 'tab');
  await start(second, 'tab');
  const answer = call('tab_2__look');
  await second.waitForFunction(() => told.begun === 1);
  await second.evaluate(() => globalThis.dispatchEvent(new Event('go')));
  expect(await answer).toContain('success');
  expect(await first.evaluate(() => [told.begun, told.state.status])).toEqual([0, 'online']);
});
