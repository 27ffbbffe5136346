// Notifications: the page subscribes, the gateway sends to a push service of this test, the worker shows it and answers.
import { createECDH, randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import ece from 'http_ece';
import type { BrowserContext, CDPSession, Page, Worker } from 'playwright-core';
import { afterAll, expect, test } from 'vitest';
import { checkAccess, photograph, World } from './support/world.ts';

/** A push service with one browser: it reads what only the browser can read. */
class PushService {
  readonly notices: Record<string, string>[] = [];
  readonly key = createECDH('prime256v1');
  readonly auth = randomBytes(16).toString('base64url');
  readonly server: Server;

  constructor() {
    this.key.generateKeys();
    this.server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const given = { version: 'aes128gcm', privateKey: this.key, authSecret: this.auth };
        this.notices.push(JSON.parse(ece.decrypt(Buffer.concat(parts), given).toString()));
        response.writeHead(201).end();
      });
    }).listen(0, '127.0.0.1');
  }

  get host(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** The next notification, as it came. */
  async next(count: number): Promise<Record<string, string>> {
    await expect.poll(() => this.notices.length).toBeGreaterThanOrEqual(count);
    return this.notices[count - 1] as Record<string, string>;
  }
}

const service = new PushService();
await new Promise((listening) => service.server.once('listening', listening));
afterAll(() => {
  service.server.closeAllConnections();
  service.server.close();
});
const world = new World('--set', `push.hosts=["${service.host}"]`);

/** A signed-in page whose `PushManager` subscribes at the service of this test: chromium's own is not asked. */
async function openPage(): Promise<Page> {
  const context = await world.context({ permissions: ['notifications'], serviceWorkers: 'allow' });
  const page = await context.newPage();
  const keys = { p256dh: service.key.getPublicKey('base64url'), auth: service.auth };
  await page.addInitScript(
    (made) => {
      if (!('ServiceWorkerRegistration' in globalThis)) return; // an empty page on the way
      const subscription = { ...made, toJSON: () => made, unsubscribe: async () => true };
      let current: unknown = null;
      const double = {
        subscribe: async () => (current = subscription),
        getSubscription: async () => current,
      };
      Object.defineProperty(ServiceWorkerRegistration.prototype, 'pushManager', { get: () => double });
    },
    { endpoint: `http://${service.host}/send/1`, keys },
  );
  await page.goto(await world.signInLink());
  await page.getByText('Signed in as').first().waitFor({ state: 'attached' });
  return page;
}

async function workerOf(context: BrowserContext): Promise<Worker> {
  return context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
}

/** Delivers the text to the worker, as a push service does after the browser has decrypted it. */
async function deliver(page: Page, notice: object): Promise<void> {
  const session: CDPSession = await page.context().newCDPSession(page);
  const registered = new Promise<string>((found) => {
    session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      const [first] = registrations;
      if (first) found(first.registrationId);
    });
  });
  await session.send('ServiceWorker.enable');
  const origin = new URL(world.gateway.url).origin;
  const registrationId = await registered;
  await session.send('ServiceWorker.deliverPushMessage', { origin, registrationId, data: JSON.stringify(notice) });
  await session.detach();
}

interface Shown {
  title: string;
  body: string;
  tag: string;
  actions: string[];
}

/** The notifications that the worker shows now. */
function shown(worker: Worker): Promise<Shown[]> {
  return worker.evaluate(async () => {
    const { registration } = globalThis as unknown as { registration: ServiceWorkerRegistration };
    const found = (await registration.getNotifications()) as (Notification & { actions: { action: string }[] })[];
    return found.map(({ title, body, tag, actions }) => ({
      title,
      body,
      tag,
      actions: actions.map(({ action }) => action),
    }));
  });
}

/** Presses a button of the notification, or its text. */
function click(worker: Worker, action: string): Promise<void> {
  return worker.evaluate(async (pressed) => {
    const { registration } = globalThis as unknown as { registration: ServiceWorkerRegistration };
    const [notification] = await registration.getNotifications();
    const event = new Event('notificationclick') as Event & { waitUntil: (work: Promise<unknown>) => void };
    const works: Promise<unknown>[] = [];
    Object.assign(event, { notification, action: pressed, waitUntil: (work: Promise<unknown>) => works.push(work) });
    globalThis.dispatchEvent(event);
    await Promise.all(works).catch(() => {}); // to open a window needs a real click
  }, action);
}

test('the person is notified of a question, and the button answers it', async () => {
  const page = await openPage();
  await page.goto(`${world.gateway.url}/#/devices`);
  await page.getByRole('button', { name: 'Notify me here' }).click();
  await page.getByText('this browser').waitFor();
  await checkAccess(page);
  await photograph(page, 'devices-notifications');
  await page.getByRole('button', { name: /^Send a test to/ }).click();
  await page.getByText('A notification was sent.').waitFor();
  const test = await service.next(1);
  expect(test.kind).toBe('test');
  const worker = await workerOf(page.context());
  await deliver(page, test);
  await expect.poll(() => shown(worker)).toMatchObject([{ title: 'Handspan', tag: 'test', actions: [] }]);

  // The page goes out of view, so the question is told at once.
  await page.goto('about:blank');
  await world.api('POST', '/api/agents', { name: 'Asking', mode: 'ask_always' });
  const call = await world.api<{ call_id: string }>('POST', '/api/tools/get_current_time/call', { agent: 'Asking' });
  const notice = await service.next(2);
  expect(notice).toMatchObject({ title: 'Asking asks', body: 'May it use get_current_time?' });
  await page.goto(`${world.gateway.url}/#/devices`);
  await worker.evaluate(async () => {
    const { registration } = globalThis as unknown as { registration: ServiceWorkerRegistration };
    for (const one of await registration.getNotifications()) one.close();
  });
  await deliver(page, notice);
  await expect.poll(() => shown(worker)).toMatchObject([{ title: 'Asking asks', actions: ['allow', 'deny'] }]);
  await click(worker, 'allow');
  const ended = await world.api<{ status: string }>('GET', `/api/calls/${call.call_id}?wait=20`);
  expect(ended.status).toBe('success');
  expect(await shown(worker)).toEqual([]);

  // The same button again: the answer does not count, and the person is told.
  await deliver(page, notice);
  await expect.poll(() => shown(worker)).toMatchObject([{ title: 'Asking asks' }]);
  await click(worker, 'deny');
  await expect.poll(() => shown(worker)).toMatchObject([{ title: 'Your answer did not count', actions: [] }]);

  await page.getByRole('button', { name: /no more$/ }).click();
  await page.getByRole('button', { name: 'Notify me here' }).waitFor();
});

test('a click opens the place in the page that is there', async () => {
  const page = await openPage();
  const worker = await workerOf(page.context());
  await deliver(page, { kind: 'message', title: 'A message', body: '', url: '#/journal', tag: 'm' });
  await expect.poll(() => shown(worker)).toMatchObject([{ title: 'A message' }]);
  await click(worker, '');
  await expect.poll(() => page.url()).toBe(`${world.gateway.url}/#/journal`);
});

test('a notification goes when its question is answered elsewhere while the page is open', async () => {
  const page = await openPage();
  const worker = await workerOf(page.context());
  await world.api('POST', '/api/agents', { name: 'Careful', mode: 'ask_always' });
  const body = { agent: 'Careful' };
  const call = await world.api<{ questions: string[] }>('POST', '/api/tools/get_current_time/call', body);
  const [id = ''] = call.questions;
  await deliver(page, { kind: 'question', title: 'Asking asks', body: '', url: '#/questions', tag: id });
  await expect.poll(() => shown(worker)).toMatchObject([{ tag: id }]);
  await world.api('POST', `/api/questions/${encodeURIComponent(id)}/answer`, { decision: 'deny' });
  await expect.poll(() => shown(worker)).toEqual([]);
});

test('the page can be installed, and keeps nothing but a page that says that the gateway is away', async () => {
  const page = await openPage();
  const session = await page.context().newCDPSession(page);
  const { errors } = await session.send('Page.getAppManifest');
  expect(errors).toEqual([]);
  await workerOf(page.context());
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  world.expectErrors(/ERR_INTERNET_DISCONNECTED|503|Failed to fetch/);
  await page.context().setOffline(true);
  await page.reload();
  await page.getByRole('heading', { name: 'The gateway can’t be reached' }).waitFor();
  await checkAccess(page);
  expect(await page.evaluate(async () => (await caches.keys()).length)).toBe(0);
  await page.context().setOffline(false);
  await page.getByRole('link', { name: 'Try again' }).click();
  await page.getByText('Signed in as').first().waitFor({ state: 'attached' });
});

test('a page without HTTPS says why it can’t notify', async () => {
  const page = await world.open('#/devices');
  await page.addInitScript(() => Object.defineProperty(globalThis, 'isSecureContext', { value: false }));
  await page.reload();
  await page.getByText('Browsers notify only for pages over HTTPS').waitFor();
  expect(await page.getByRole('button', { name: 'Notify me here' }).count()).toBe(0);
});
