// The entry where there is no browser at all: here.
import { expect, test } from 'vitest';
import {
  afterGesture,
  askBrowser,
  type BrowserTool,
  BrowserToolError,
  browserTools,
  camera,
  storageTools,
} from '../../src/browser/index.js';
import type { AskPermission } from '../../src/device/permission.js';
import type { DeviceTool } from '../../src/device/tool.js';
import type { ToolRegistration } from '../../src/tools/registration.js';

test('the entry loads in Node, and every tool says that it needs a page', async () => {
  for (const tool of browserTools()) {
    const args = { query: '', type: 'gps', text: 'x', title: 'x', key: 'x', selector: 'x' };
    const outcome = tool.handler(args, {});
    await expect(outcome, tool.name).rejects.toMatchObject({
      code: 'execution_failed',
      reason: 'unsupported',
      message: expect.stringContaining('needs a page in a browser'),
    });
  }
});

test('some tools are given by name, in that order, and an unknown name is an error', () => {
  expect(browserTools(['page_title', 'camera']).map((tool) => tool.name)).toEqual(['page_title', 'camera']);
  // @ts-expect-error: the types know the names, too
  expect(() => browserTools(['teleport'])).toThrow(/no browser tool 'teleport': name some of device_info, camera/);
});

test('every tool has a sentence, a closed schema with words for each property, and annotations', () => {
  const OF_THE_SEED = ['device_info', 'camera', 'contacts', 'sensors'];
  for (const { name, description, parameters, annotations } of browserTools()) {
    expect(annotations, name).toBeDefined();
    if (OF_THE_SEED.includes(name)) continue;
    expect(description, name).toMatch(/^[A-Z].*\.$/);
    expect(parameters.additionalProperties, name).toBe(false);
    for (const [key, schema] of Object.entries(parameters.properties)) {
      expect(schema, `${name}.${key}`).toHaveProperty('description');
    }
  }
});

test('the four tools of the seed have its schemas', () => {
  const seed = {
    device_info: { type: 'object', properties: {}, required: [] },
    camera: {
      type: 'object',
      properties: { quality: { type: 'string', enum: ['low', 'high'] } },
      required: [],
    },
    contacts: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
    sensors: {
      type: 'object',
      properties: { type: { type: 'string', enum: ['accelerometer', 'gyroscope', 'gps'] } },
      required: ['type'],
    },
  };
  const found = browserTools(['device_info', 'camera', 'contacts', 'sensors']);
  expect(Object.fromEntries(found.map((tool) => [tool.name, tool.parameters]))).toEqual(seed);
});

test('what a person has to allow is named as the W3C names it', () => {
  const declared = browserTools().flatMap(({ name, permissions }) => (permissions ? [[name, permissions]] : []));
  expect(Object.fromEntries(declared)).toEqual({
    camera: ['camera'],
    contacts: ['contacts'],
    sensors: ['accelerometer', 'gyroscope', 'geolocation'],
    read_clipboard: ['clipboard-read'],
    write_clipboard: ['clipboard-write'],
    get_location: ['geolocation'],
    record_audio: ['microphone'],
    notify: ['notifications'],
  });
});

test('the tools fit a client and a device as they are', () => {
  const tools = browserTools(['camera', 'storage_write']);
  const forClient: ToolRegistration[] = tools;
  const forDevice: DeviceTool[] = tools;
  const ask: AskPermission = askBrowser;
  expect([forClient.length, forDevice.length, typeof ask]).toEqual([2, 2, 'function']);
});

test('a page asks for a click only when the browser wants one for the tool', async () => {
  const asked: string[] = [];
  const failures: BrowserToolError[] = [];
  const shown: BrowserTool = {
    ...camera,
    handler: async () => {
      const failure = failures.shift();
      if (failure) throw failure;
      return 'done';
    },
  };
  const tool = afterGesture(shown, async ({ name }) => {
    asked.push(name);
  });
  expect(await tool.handler({}, {})).toBe('done');
  expect(asked).toEqual([]);
  failures.push(new BrowserToolError('gesture_missing', 'It opens only right after a click.'));
  expect(await tool.handler({}, {})).toBe('done');
  expect(asked).toEqual(['camera']);
  failures.push(new BrowserToolError('denied', 'The person did not allow it.'));
  await expect(tool.handler({}, {})).rejects.toThrow('did not allow it');
  expect(asked).toEqual(['camera']);
});

test('a page can keep notes under a prefix of its own', () => {
  const { storageRead, storageWrite } = storageTools('mine:');
  expect([storageRead.name, storageWrite.name]).toEqual(['storage_read', 'storage_write']);
});
