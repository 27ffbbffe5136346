import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { TestGateway } from '../../support/gateway.js';
import { evaluate } from './calling.js';
import { INSECURE_HOST, openBrowser } from './chromium.js';
import { Site } from './site.js';

/** What a file of tests needs beside a browser and a site. */
export interface TabsOptions {
  /** Of chromium. */
  readonly flags?: string[];
  /** Also a gateway, which knows the site; with these words for it. */
  readonly gateway?: string[];
}

/** One browser and one site for the tests of a file, and a tab that is new to every test. */
export class Tabs {
  private browser: Browser | undefined;
  private running: Site | undefined;
  private started: TestGateway | undefined;
  private tab: Page | undefined;
  private readonly contexts: BrowserContext[] = [];

  constructor(options: TabsOptions = {}) {
    beforeAll(async () => {
      this.running = await Site.start();
      if (options.gateway !== undefined) {
        this.started = await TestGateway.start('--origins', this.running.url, ...options.gateway);
      }
      this.browser = await openBrowser(...(options.flags ?? []), ...this.mapped());
    });
    afterEach(async () => {
      await Promise.all(this.contexts.splice(0).map((context) => context.close()));
    });
    afterAll(async () => {
      await Promise.all([this.browser?.close(), this.running?.close(), this.started?.close()]);
    });
  }

  get site(): Site {
    if (this.running === undefined) throw new Error('the site runs only while tests do');
    return this.running;
  }

  get gateway(): TestGateway {
    if (this.started === undefined) throw new Error('the gateway runs only while tests do, and where it was asked for');
    return this.started;
  }

  /**
   * The tab with its page loaded anew. It may use these permissions and none else; without any named, the browser asks,
   * and nobody answers. One tab for all, with nothing left of the test before: a new one takes much longer.
   */
  async open(permissions?: string[], url = this.site.url): Promise<Page> {
    this.tab ??= await (await this.newContext()).newPage();
    const context = this.tab.context();
    await context.clearPermissions();
    await context.clearCookies();
    if (permissions !== undefined) {
      await context.grantPermissions(permissions);
    }
    await this.tab.goto(url); // to its `load`, which comes after the scripts
    await evaluate(this.tab, 'localStorage.clear()');
    return this.tab;
  }

  /** The tab with a page that came over plain HTTP. */
  openInsecure(): Promise<Page> {
    return this.open(undefined, `http://${INSECURE_HOST}:${this.site.port}`);
  }

  /** A person's browser with nothing in it: no tab, no cookie, no permission. It is closed after the test. */
  async context(): Promise<BrowserContext> {
    const context = await this.newContext();
    this.contexts.push(context);
    return context;
  }

  /** Lets the address of the seed's example lead to the gateway. */
  private mapped(): string[] {
    return this.started === undefined ? [] : [`MAP localhost:8000 ${new URL(this.started.url).host}`];
  }

  private newContext(): Promise<BrowserContext> {
    if (this.browser === undefined) throw new Error('the browser runs only while tests do');
    return this.browser.newContext({ locale: 'de-DE', timezoneId: 'Europe/Berlin' });
  }
}
