import type { CDPSession, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { callTool, evaluate } from './support/calling.js';
import { fileOf } from './support/files.js';
import { Tabs } from './support/tabs.js';

const tabs = new Tabs();
const HERE = { latitude: 52.52, longitude: 13.405, accuracy: 12 };

describe('clipboard', () => {
  test('what is written can be read', async () => {
    const page = await tabs.open(['clipboard-read', 'clipboard-write']);
    expect((await callTool(page, 'write_clipboard', { text: 'Grüße 👋' })).value).toEqual({ written: 8 });
    expect((await callTool(page, 'read_clipboard')).value).toEqual({ text: 'Grüße 👋' });
  });

  test('a long text comes cut, and says so', async () => {
    const page = await tabs.open(['clipboard-read', 'clipboard-write']);
    await callTool(page, 'write_clipboard', { text: `${'x'.repeat(49_999)}👋!` });
    const { value } = await callTool(page, 'read_clipboard');
    expect(value).toEqual({ text: 'x'.repeat(49_999), truncated: true, characters: 50_002 });
  });

  test('a page in the background is told to come to the front', async () => {
    const page = await tabs.open(['clipboard-read']);
    await evaluate(page, 'document.hasFocus = () => false');
    await evaluate(
      page,
      "navigator.clipboard.readText = async () => { throw new DOMException('', 'NotAllowedError') }",
    );
    const { error } = await callTool(page, 'read_clipboard');
    expect(error).toMatchObject({ code: 'execution_failed', reason: 'not_focused' });
    expect(error?.message).toContain('Ask the person to click into the page');
  });
});

describe('location', () => {
  test('is where the device is, for both tools', async () => {
    const page = await tabs.open(['geolocation']);
    await page.context().setGeolocation(HERE);
    expect((await callTool(page, 'get_location')).value).toMatchObject({ ...HERE, altitude: null });
    expect((await callTool(page, 'sensors', { type: 'gps' })).value).toEqual(HERE);
  });

  test('that can’t be found is an error that says what to do', async () => {
    const page = await tabs.open(['geolocation']);
    await page.context().setGeolocation(null);
    const { error } = await callTool(page, 'get_location');
    expect(error).toMatchObject({ code: 'execution_failed' });
    expect(error?.message).toContain('Ask the person where they are');
  });
});

describe('motion', () => {
  /** Lets the browser believe that the device has these sensors, until the session is closed. */
  async function simulate(page: Page, readings: Record<string, object>): Promise<CDPSession> {
    const session = await page.context().newCDPSession(page);
    const send = session.send.bind(session) as (method: string, params: object) => Promise<unknown>;
    for (const [type, xyz] of Object.entries(readings)) {
      await send('Emulation.setSensorOverrideEnabled', { type, enabled: true, metadata: { available: true } });
      await send('Emulation.setSensorOverrideReadings', { type, reading: { xyz } });
    }
    return session;
  }

  test('is what the sensors measure', async () => {
    const page = await tabs.open(['accelerometer', 'gyroscope']);
    const session = await simulate(page, { accelerometer: { x: 0, y: 1, z: 9.8 }, gyroscope: { x: 0.5, y: 0, z: 0 } });
    expect((await callTool(page, 'sensors', { type: 'accelerometer' })).value).toEqual({
      x: 0,
      y: 1,
      z: 9.8,
      unit: 'm/s²',
    });
    expect((await callTool(page, 'sensors', { type: 'gyroscope' })).value).toEqual({
      x: expect.closeTo(0.5, 2),
      y: 0,
      z: 0,
      unit: 'rad/s',
    });
    await session.detach();
  });

  test('of a device without sensors is an error', async () => {
    const page = await tabs.open(['accelerometer', 'gyroscope']);
    const { error } = await callTool(page, 'sensors', { type: 'accelerometer' });
    expect(error?.code).toBe('execution_failed');
    expect(error?.message).toContain('This device has no accelerometer that can be read');
  });

  test('comes from events where the browser has no sensors', async () => {
    const page = await tabs.open(['accelerometer', 'gyroscope']);
    await evaluate(
      page,
      `delete globalThis.Accelerometer; delete globalThis.Gyroscope; setInterval(() => {
        const accelerationIncludingGravity = { x: 1, y: 2, z: 9 }, rotationRate = { alpha: 180, beta: 0, gamma: 0 };
        dispatchEvent(new DeviceMotionEvent('devicemotion', { accelerationIncludingGravity, rotationRate }));
      }, 10)`,
    );
    const read = async (type: string) => (await callTool(page, 'sensors', { type }, { gesture: true })).value;
    expect(await read('accelerometer')).toEqual({ x: 1, y: 2, z: 9, unit: 'm/s²' });
    expect(await read('gyroscope')).toMatchObject({ x: 0, z: Math.PI });
  });

  test('from events can be refused, needs a click, and can be cancelled', async () => {
    const page = await tabs.open(['accelerometer', 'gyroscope']);
    const answer = (said: string) =>
      evaluate(
        page,
        `delete globalThis.Gyroscope; DeviceMotionEvent.requestPermission = async () => '${said}'; undefined`,
      );
    await answer('denied');
    const gyroscope = { type: 'gyroscope' };
    expect((await callTool(page, 'sensors', gyroscope)).error?.reason).toBe('gesture_missing');
    expect((await callTool(page, 'sensors', gyroscope, { gesture: true })).error?.code).toBe('permission_denied');
    await answer('granted');
    const { error } = await callTool(page, 'sensors', gyroscope, { gesture: true, abortAfter: 50 });
    expect(error?.code).toBe('cancelled');
  });

  test('of an unknown sensor is refused', async () => {
    const page = await tabs.open();
    expect((await callTool(page, 'sensors', { type: 'nose' })).error?.code).toBe('invalid_arguments');
  });
});

describe('notify', () => {
  test('shows a notification', async () => {
    const page = await tabs.open(['notifications']);
    await evaluate(
      page,
      'globalThis.Notification = class extends Notification { constructor(...args) { super(...args); globalThis.shown = [this.title, this.body, this.tag] } }',
    );
    expect((await callTool(page, 'notify', { title: 'Tea', body: 'is ready', tag: 't' })).value).toEqual({
      shown: true,
    });
    expect(await evaluate(page, 'shown')).toEqual(['Tea', 'is ready', 't']);
  });

  test('is unsupported where only a service worker may show one', async () => {
    const page = await tabs.open(['notifications']);
    const script = `globalThis.Notification = class { static permission = 'granted'; constructor() { throw new TypeError('Illegal constructor') } }`;
    await evaluate(page, script);
    const { error } = await callTool(page, 'notify', { title: 'Tea' });
    expect(error).toMatchObject({ code: 'execution_failed', reason: 'unsupported' });
    expect(error?.message).toContain('needs a service worker');
  });

  test('asks for a click where the browser did not show its question', async () => {
    const page = await tabs.open();
    await evaluate(
      page,
      `globalThis.Notification = class { static permission = 'default'; static requestPermission = async () => 'default' }`,
    );
    expect((await callTool(page, 'notify', { title: 'Tea' })).error?.reason).toBe('gesture_missing');
    const clicked = await callTool(page, 'notify', { title: 'Tea' }, { gesture: true });
    expect(clicked.error?.code).toBe('permission_denied');
  });
});

describe('pick_file', () => {
  async function choosing(page: Page, path: string) {
    const opened = page.waitForEvent('filechooser', { timeout: 60_000 });
    const outcome = callTool(page, 'pick_file', {}, { gesture: true });
    await (await opened).setFiles(path);
    return outcome;
  }

  test('gives the file that the person chose', async () => {
    const page = await tabs.open();
    const { file } = await choosing(page, fileOf('a.txt', 'abcd'));
    expect(file).toEqual({ name: 'a.txt', type: 'text/plain', size: 4, head: [97, 98, 99, 100] });
  });

  test('refuses a file that is too large to be sent', async () => {
    const page = await tabs.open();
    const { error } = await choosing(page, fileOf('big.bin', '', 6_000_001));
    expect(error?.code).toBe('execution_failed');
    expect(error?.message).toContain("The file 'big.bin' has 6.0 MB, and at most 6 MB can be sent");
  });

  test('of a person who closes the picker is a no', async () => {
    const page = await tabs.open();
    await evaluate(page, `HTMLInputElement.prototype.click = function () { this.dispatchEvent(new Event('cancel')) }`);
    const { error } = await callTool(page, 'pick_file', {}, { gesture: true });
    expect(error).toMatchObject({ code: 'permission_denied', reason: 'dismissed' });
  });

  test('is given up when the call is cancelled', async () => {
    const page = await tabs.open();
    const opened = page.waitForEvent('filechooser', { timeout: 60_000 });
    const outcome = callTool(page, 'pick_file', {}, { gesture: true, abortAfter: 200 });
    await opened;
    expect((await outcome).error?.code).toBe('cancelled');
  });

  test('offers the kinds of files that were asked for', async () => {
    const page = await tabs.open();
    const opened = page.waitForEvent('filechooser', { timeout: 60_000 });
    const outcome = callTool(page, 'pick_file', { accept: '.pdf,image/*' }, { gesture: true, abortAfter: 500 });
    expect(await (await opened).element().getAttribute('accept')).toBe('.pdf,image/*');
    await outcome;
  });
});

// no browser on a desk has these two: what follows stands in for the part of a phone's browser that the tool talks to
describe('contacts', () => {
  const ADA = { name: ['Ada Lovelace'], tel: ['+44 1'], email: ['ada@example.org'] };
  const ALAN = { name: ['Alan Turing'], tel: [], email: [] };

  async function picking(page: Page, answer: string, query: string) {
    await evaluate(page, `navigator.contacts = { select: async () => ${answer} }; undefined`);
    return callTool(page, 'contacts', { query }, { gesture: true });
  }

  test('where the picker gives nobody, each case has its code', async () => {
    const page = await tabs.open();
    for (const [answer, code, reason] of [
      ['[]', 'permission_denied', 'dismissed'],
      ["Promise.reject(new DOMException('', 'SecurityError'))", 'execution_failed', 'gesture_missing'],
      ["Promise.reject(new DOMException('', 'InvalidStateError'))", 'busy', 'not_ready'],
    ] as const) {
      expect((await picking(page, answer, '')).error, answer).toMatchObject({ code, reason });
    }
  });

  test('are those that the person picked and that fit; when none fits, all that were picked', async () => {
    const page = await tabs.open();
    expect((await picking(page, JSON.stringify([ADA, ALAN]), 'ada')).value).toEqual([
      { name: 'Ada Lovelace', phone: '+44 1', phones: ['+44 1'], emails: ['ada@example.org'] },
    ]);
    expect((await picking(page, JSON.stringify([ALAN]), 'my cousin')).value).toEqual([
      { name: 'Alan Turing', phone: null, phones: [], emails: [] },
    ]);
  });
});

describe('share', () => {
  async function sharing(page: Page, answer: string, args: object) {
    const script = `globalThis.shared = null; navigator.share = async (data) => { globalThis.shared = data; ${answer} }`;
    await evaluate(page, `${script}; undefined`);
    const outcome = await callTool(page, 'share', args, { gesture: true });
    return { outcome, shared: await evaluate(page, 'shared') };
  }

  test('refuses what is nothing or no address of the web', async () => {
    const page = await tabs.open();
    for (const args of [{}, { url: 'javascript:alert(1)' }, { url: 'example.org' }]) {
      const { outcome, shared } = await sharing(page, '', args);
      expect(outcome.error?.code, JSON.stringify(args)).toBe('invalid_arguments');
      expect(shared).toBeNull();
    }
  });

  test('where the sheet shares nothing, each case has its code', async () => {
    const page = await tabs.open();
    for (const [name, code, reason] of [
      ['AbortError', 'permission_denied', 'dismissed'],
      ['NotAllowedError', 'execution_failed', 'gesture_missing'],
      ['InvalidStateError', 'busy', 'not_ready'],
    ] as const) {
      const { outcome } = await sharing(page, `throw new DOMException('', '${name}')`, { text: 'x' });
      expect(outcome.error, name).toMatchObject({ code, reason });
    }
  });

  test('hands over what was given', async () => {
    const page = await tabs.open();
    const { outcome, shared } = await sharing(page, '', { text: 'Look', url: 'https://example.org/' });
    expect(outcome.value).toEqual({ shared: true });
    expect(shared).toEqual({ text: 'Look', url: 'https://example.org/' });
  });
});
