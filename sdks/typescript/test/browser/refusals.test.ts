import { describe, expect, test } from 'vitest';
import { callTool, evaluate } from './support/calling.js';
import { Tabs } from './support/tabs.js';

const tabs = new Tabs();

describe('where the page came over plain HTTP', () => {
  const PRIVATE = {
    camera: {},
    contacts: { query: 'ada' },
    sensors: { type: 'gyroscope' },
    read_clipboard: {},
    write_clipboard: { text: 'x' },
    get_location: {},
    record_audio: {},
    notify: { title: 'x' },
    battery: {},
    share: { text: 'x' },
  };

  test('every tool that needs a secure context says so, and what to do', async () => {
    const page = await tabs.openInsecure();
    for (const [name, args] of Object.entries(PRIVATE)) {
      const { error } = await callTool(page, name, args, { gesture: true });
      expect(error, name).toMatchObject({ code: 'execution_failed', reason: 'insecure_context' });
      expect(error?.message, name).toMatch(/insecure context.*open it over HTTPS/);
    }
    const gps = await callTool(page, 'sensors', { type: 'gps' });
    expect(gps.error?.reason).toBe('insecure_context');
  });

  test('the others work all the same', async () => {
    const page = await tabs.openInsecure();
    expect((await callTool(page, 'page_title')).value).toMatchObject({ title: 'A page of the tests' });
    expect((await callTool(page, 'get_browser_locale')).value).toMatchObject({ locale: 'de-DE' });
    expect((await callTool(page, 'device_info')).value).toMatchObject({ locale: 'de-DE', mobile: false });
    expect((await callTool(page, 'storage_write', { key: 'a', value: 'b' })).value).toEqual({ key: 'a', written: 1 });
  });
});

describe('where the person has blocked it', () => {
  const ASKING = {
    camera: {},
    sensors: { type: 'accelerometer' },
    read_clipboard: {},
    write_clipboard: { text: 'x' },
    get_location: {},
    record_audio: {},
    notify: { title: 'x' },
  };

  test('every tool with a permission answers that no asking will help', async () => {
    const page = await tabs.open([]);
    for (const [name, args] of Object.entries(ASKING)) {
      const { error } = await callTool(page, name, args, { gesture: true });
      expect(error, name).toMatchObject({ code: 'permission_denied_forever', reason: 'denied_forever' });
      expect(error?.message, name).toContain(`site settings for ${tabs.site.url}`);
    }
    for (const type of ['gyroscope', 'gps']) {
      expect((await callTool(page, 'sensors', { type })).error?.code, type).toBe('permission_denied_forever');
    }
  });

  test('a frame that was not given the permission says where to look', async () => {
    const page = await tabs.open(['camera']);
    const other = tabs.site.url.replace('127.0.0.1', 'localhost'); // another origin, from where nothing is passed on
    await evaluate(page, `document.body.append(Object.assign(document.createElement('iframe'), { src: '${other}' }))`);
    const frame = await page.waitForSelector('iframe').then((element) => element.contentFrame());
    await frame?.waitForLoadState();
    const error = await frame?.evaluate("call('camera', {}).then(({ error }) => error)");
    expect(error).toMatchObject({
      code: expect.stringMatching(/^permission_denied/),
      message: expect.stringContaining('frame of another one'),
    });
  });

  test('neither camera nor microphone was opened', async () => {
    const page = await tabs.open([]);
    await callTool(page, 'camera');
    await callTool(page, 'record_audio');
    expect(await evaluate(page, 'opened.length')).toBe(0);
  });
});

describe('where the browser does not have it', () => {
  const WITHOUT = {
    contacts: [{ query: 'ada' }, 'undefined'],
    share: [{ text: 'x' }, 'undefined'],
    battery: [{}, 'navigator.getBattery = undefined'],
    vibrate: [{}, 'navigator.vibrate = undefined'],
    notify: [{ title: 'x' }, 'delete globalThis.Notification'],
    get_location: [{}, "Object.defineProperty(navigator, 'geolocation', { value: undefined })"],
    read_clipboard: [{}, 'navigator.clipboard.readText = undefined'],
    write_clipboard: [{ text: 'x' }, "Object.defineProperty(navigator, 'clipboard', { value: undefined })"],
    sensors: [{ type: 'gyroscope' }, 'delete globalThis.Gyroscope; delete globalThis.DeviceMotionEvent'],
  } as const;

  test('every tool says that it is unsupported, and what to do instead', async () => {
    const page = await tabs.open();
    for (const [name, [args, script]] of Object.entries(WITHOUT)) {
      await evaluate(page, script);
      const { error } = await callTool(page, name, args, { gesture: true });
      expect(error, name).toMatchObject({ code: 'execution_failed', reason: 'unsupported' });
      expect(error?.message, name).toMatch(/is unsupported in this browser\. \S/);
    }
  });
});

describe('where nobody answers the question of the browser', () => {
  test('the tools that asked tell it', async () => {
    const page = await tabs.open();
    for (const [name, args] of [
      ['read_clipboard', {}],
      ['get_location', {}],
      ['notify', { title: 'x' }],
    ] as const) {
      const { error } = await callTool(page, name, args, { gesture: true });
      expect(error?.code, name).toMatch(/^permission_denied/);
    }
  });
});

describe('without a click right before', () => {
  test('what opens a window of the browser says that it needs one', async () => {
    const page = await tabs.open();
    await evaluate(
      page,
      'navigator.contacts = { select: () => { throw new Error("opened") } }; navigator.share = navigator.contacts.select',
    );
    for (const [name, args] of [
      ['pick_file', {}],
      ['contacts', { query: 'ada' }],
      ['share', { text: 'x' }],
    ] as const) {
      const { error } = await callTool(page, name, args);
      expect(error, name).toMatchObject({ code: 'execution_failed', reason: 'gesture_missing' });
      expect(error?.message, name).toMatch(/ask them to click into the page, and call this tool again at once/);
    }
  });

  test('the device does not vibrate', async () => {
    const page = await tabs.open();
    expect((await callTool(page, 'vibrate')).error).toMatchObject({ reason: 'gesture_missing' });
  });
});

test('a device is told what the browser would say, and where it can be changed', async () => {
  const page = await tabs.open(['camera']);
  const ask = (tool: string, permission: string, args = {}) =>
    evaluate(page, `askBrowser(${JSON.stringify({ tool, permission, arguments: args })})`);
  const howToEnable = `the browser's site settings for ${tabs.site.url}`;
  expect(await ask('camera', 'camera')).toBe('allow');
  expect(await ask('contacts', 'contacts')).toBe('allow');
  expect(await ask('record_audio', 'microphone')).toEqual({ decision: 'deny_forever', howToEnable });
  expect(await ask('sensors', 'geolocation', { type: 'gps' })).toEqual({ decision: 'deny_forever', howToEnable });
  expect(await ask('sensors', 'geolocation', { type: 'gyroscope' })).toBe('allow');
});
