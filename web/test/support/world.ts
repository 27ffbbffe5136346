import { accessSync, constants, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { TestGateway } from '../../../sdks/typescript/test/support/gateway.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Where screenshots are kept: `web/screenshots/`, which git ignores. */
const FOLDER = fileURLToPath(new URL('../../screenshots/', import.meta.url));
/** A host that leads to the gateway, and is not the computer's own: over plain HTTP its pages are not secure. */
export const PLAIN_HOST = 'box.test';
/** `FAKE_CAMERA` names a picture that the camera sees. */
const flags = () => [
  `--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1`,
  '--use-fake-device-for-media-stream',
  '--use-fake-ui-for-media-stream',
  ...(process.env.FAKE_CAMERA ? [`--use-file-for-fake-video-capture=${process.env.FAKE_CAMERA}`] : []),
];

export const DESKTOP = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

/**
 * One real gateway for the tests of a file, and a chromium. Its model does what the message says (`handspan.testing`).
 *
 *     const world = new World();
 *     test('…', async () => {
 *       const page = await world.open('#/tools');
 *     });
 *
 * A test fails when one of its pages logs an error, or when a page throws.
 */
export class World {
  #browser: Browser | undefined;
  #gateway: TestGateway | undefined;
  #contexts: BrowserContext[] = [];
  #errors: string[] = [];
  #expected: RegExp | undefined;

  /** `options` are those of `python -m handspan.testing`. */
  constructor(...options: string[]) {
    beforeAll(async () => {
      [this.#gateway, this.#browser] = await Promise.all([TestGateway.start(...options), sharedChromium()]);
    });
    afterEach(async ({ task }) => {
      if (task.result?.state === 'fail') await this.#keepPictures(task.name);
      await Promise.all(this.#contexts.splice(0).map((context) => context.close()));
      const unexpected = this.#errors.splice(0).filter((text) => !this.#expected?.test(text));
      this.#expected = undefined;
      expect(unexpected, 'errors in the console').toEqual([]);
    });
    afterAll(() => this.#gateway?.close());
  }

  /** Keeps what every page shows, for the person who looks why a test has failed. */
  async #keepPictures(test: string): Promise<void> {
    mkdirSync(FOLDER, { recursive: true });
    const pages = this.#contexts.flatMap((context) => context.pages());
    for (const [index, page] of pages.entries()) {
      const name = `failed-${test.replace(/\W+/g, '-').slice(0, 60)}-${index}.png`;
      await page.screenshot({ path: join(FOLDER, name), timeout: 20_000 }).catch(() => {});
    }
  }

  get gateway(): TestGateway {
    if (!this.#gateway) throw new Error('the gateway runs only while tests do');
    return this.#gateway;
  }

  /** Errors in the console that this test brings about itself, as by killing the gateway. */
  expectErrors(text: RegExp): void {
    this.#expected = text;
  }

  /** A person's browser that nobody has signed in. */
  async context(options: BrowserContextOptions = {}): Promise<BrowserContext> {
    if (!this.#browser) throw new Error('the browser runs only while tests do');
    // Only the tests of the service worker have one: it would answer in place of what a test puts before the gateway.
    const usual = { viewport: DESKTOP, locale: 'en-GB', serviceWorkers: 'block' } as const;
    const context = await this.#browser.newContext({ ...usual, ...options });
    context.setDefaultTimeout(90_000); // a guard, no measure
    this.#contexts.push(context);
    context.on('console', (message) => {
      // A refused request (401, 404, 409 …) is no fault of the page: Chromium logs it all the same.
      const isRefusal =
        /Failed to load resource: the server responded with a status of 4|WebSocket .* HTTP Authentication failed/.test(
          message.text(),
        );
      if (message.type() === 'error' && !isRefusal) this.#errors.push(`${message.page()?.url()}: ${message.text()}`);
    });
    context.on('weberror', (error) => this.#errors.push(String(error.error())));
    return context;
  }

  /** A page of a browser that is signed in, at this address: `#/tools`. */
  async open(hash = '', options: BrowserContextOptions = {}): Promise<Page> {
    const page = await (await this.context(options)).newPage();
    await page.goto(await this.signInLink());
    await page.getByText('Signed in as').first().waitFor({ state: 'attached' });
    if (hash) await page.goto(`${this.gateway.url}/${hash}`);
    return page;
  }

  /** Another page of the same browser. */
  async another(page: Page, hash = ''): Promise<Page> {
    const other = await page.context().newPage();
    await other.goto(`${this.gateway.url}/${hash}`);
    return other;
  }

  /** A link that signs one browser in. */
  async signInLink(): Promise<string> {
    return (await this.api<{ url: string }>('POST', '/api/signin')).url;
  }

  /** Asks the gateway with the operator's token. */
  async api<Answer = unknown>(method: string, path: string, body?: unknown): Promise<Answer> {
    const { url, token } = this.gateway;
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    };
    const answer = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Answer;
  }
}

/** Turns a switch on or off. Its page may be drawn anew meanwhile, so that a click is lost. */
export async function turn(control: Locator, isOn: boolean): Promise<void> {
  await expect
    .poll(async () => {
      if ((await control.isChecked()) !== isOn) await control.click({ force: true });
      return control.isChecked();
    })
    .toBe(isOn);
}

/** Says something in the chat. A dialog that is about to close would take the keys. */
export async function say(page: Page, text: string): Promise<void> {
  await page.locator('dialog[open]').first().waitFor({ state: 'detached' });
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

/** Fails when axe finds a serious problem in the page as it is now. */
export async function checkAccess(page: Page): Promise<void> {
  // Not as a script element: the page's own policy forbids it.
  if (!(await page.evaluate('typeof axe !== "undefined"'))) await page.evaluate(AXE);
  const { violations } = (await page.evaluate('axe.run({ resultTypes: ["violations"] })')) as {
    violations: { id: string; impact: string; help: string; nodes: { html: string; failureSummary: string }[] }[];
  };
  const serious = violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join(' | ')}`,
    );
  expect(serious, 'serious problems that axe finds').toEqual([]);
}

/** Keeps pictures of the page as it is now: desktop and phone, light and dark. Only `make screenshots` wants them. */
export async function photograph(page: Page, name: string): Promise<void> {
  if (!process.env.SCREENSHOTS) return;
  mkdirSync(FOLDER, { recursive: true });
  const before = page.viewportSize();
  for (const [size, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: join(FOLDER, `${name}-${size}-${colorScheme}.png`) });
    }
  }
  await page.emulateMedia({ colorScheme: null });
  if (before) await page.setViewportSize(before);
}

const shared = new Map<string, Promise<Browser>>();

/** One chromium for all files that a worker runs: tests share nothing in it, each has contexts of its own. Ends with the worker. */
function sharedChromium(): Promise<Browser> {
  const key = flags().join(' ');
  const browser = shared.get(key) ?? openChromium();
  shared.set(key, browser);
  return browser;
}

export function openChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: findChromium(), args: flags() });
}

function findChromium(): string {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder, 'chromium');
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // not in this folder
    }
  }
  throw new Error('There is no chromium in PATH. Run: make system');
}
