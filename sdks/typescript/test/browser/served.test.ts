// What a new user does: `handspan serve`, the link that it shows, the example page as the gateway serves it, and "Ask".
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { openBrowser } from './support/chromium.js';

const HANDSPAN = fileURLToPath(new URL('../../../../.venv/bin/handspan', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'handspan-served-'));
const ready = join(folder, 'ready.json');
let gateway: ChildProcess;
let browser: Browser;
let at: { url: string; token: string };

beforeAll(async () => {
  const places = ['--ready-file', ready, '--state', join(folder, 'state'), '--workspace', join(folder, 'workspace')];
  gateway = spawn(HANDSPAN, ['serve', '--port', '0', '--model', 'offline', ...places], { stdio: 'ignore' });
  browser = await openBrowser();
  await vi.waitFor(() => expect(existsSync(ready)).toBe(true), { timeout: 25_000, interval: 50 });
  at = JSON.parse(readFileSync(ready, 'utf8'));
});

afterAll(async () => {
  await browser?.close();
  const ended = once(gateway, 'exit');
  gateway.kill('SIGTERM');
  await ended;
  rmSync(folder, { recursive: true, force: true });
});

test('the agent reads the clipboard and the locale, and nothing of the page is blocked', async () => {
  const context = await browser.newContext({ locale: 'sv-SE' });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: at.url });
  const page = await context.newPage();
  const wrong: string[] = [];
  page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
  page.on('pageerror', (error) => wrong.push(error.message));
  const headers = { Authorization: `Bearer ${at.token}` };
  const link = await (await fetch(`${at.url}/api/signin`, { method: 'POST', headers })).json();
  await page.goto(link.url);
  await page.goto(`${at.url}/examples/browser_tools/`);
  await page.evaluate(() => navigator.clipboard.writeText('three eggs'));
  await page.getByRole('button', { name: 'Ask' }).click(); // the question that stands there already
  for (const tool of ['read_clipboard', 'get_browser_locale'])
    await page.getByText(`${tool} ran in this page`).waitFor();
  const answer = page.locator('.agent').last();
  await expect.poll(() => answer.textContent(), { timeout: 10_000 }).toContain('three eggs');
  expect(await answer.textContent()).toContain('sv-SE');
  expect(wrong).toEqual([]);
});
