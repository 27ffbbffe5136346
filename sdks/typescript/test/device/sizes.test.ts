// What is too large for a message of the gateway: never sent, and never lost without a word (ws.md 5.12).
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { JsonObject } from '../../src/device/frames.js';
import type { DeviceOptions } from '../../src/device/options.js';
import type { DeviceTool } from '../../src/device/tool.js';
import { type ServerLink, SocketServer } from './support/socket-server.js';
import { Started, tool } from './support/started.js';

const SMALL = { limits: { message_bytes: 4096 } };

let server: SocketServer;
let started: Started | undefined;

beforeEach(async () => {
  server = await SocketServer.start();
});

afterEach(async () => {
  await started?.close();
  await server.close();
});

/** A device that is online at a gateway that takes small messages, and its link. */
async function online(options: Partial<DeviceOptions>, ...tools: DeviceTool[]): Promise<[Started, ServerLink]> {
  started = new Started({ url: server.url, token: 'token', ...options }, ...tools);
  const link = await server.link();
  await link.greet(SMALL);
  if (tools.length > 0) await link.frames.next('register_tools');
  return [started, link];
}

/** The next frame, which fits. */
async function small(link: ServerLink): Promise<JsonObject> {
  const frame = await link.frames.next('a frame');
  expect(JSON.stringify(frame).length).toBeLessThanOrEqual(4096);
  return frame;
}

async function answerTo(handler: DeviceTool['handler']): Promise<JsonObject> {
  const [, link] = await online({}, tool('it', handler));
  link.send({ type: 'tool_call_request', id: 'c1', name: 'it', args: {} });
  return small(link);
}

test('a code that no message can hold is left out', async () => {
  const error = Object.assign(new Error('no'), { code: 'x'.repeat(5000) });
  expect(await answerTo(() => Promise.reject(error))).toEqual({
    type: 'tool_error',
    id: 'c1',
    error: 'no',
    success: false,
  });
});

test('more attachments than a message can name are an error that says how large it was', async () => {
  const parts = Array(200).fill({ kind: 'file', media_type: 'text/plain', artifact: 'a1' });
  const answer = await answerTo(() => ({ output: 'seen', parts }));
  expect(answer).toMatchObject({ type: 'tool_error', code: 'execution_failed' });
  expect(answer.error).toContain('4 bytes and 200 attachments is too large');
});

test('a result that just fits is sent', async () => {
  expect(await answerTo(() => 'x'.repeat(4000))).toMatchObject({ type: 'tool_result' });
});

test('progress, and words about a permission', async () => {
  const [, link] = await online(
    { onPermission: () => ({ decision: 'deny', howToEnable: 'w'.repeat(50_000) }) },
    tool('it', (_, { progress }) => progress('p'.repeat(10_000))),
  );
  link.send({ type: 'tool_call_request', id: 'c1', name: 'it', args: {} });
  expect((await small(link)).value).toBe('(progress of 10002 bytes: too large to be shown)');
  await small(link);
  const question = { id: 'q1', call_id: 'c2', tool: 'it', permission: 'camera', expires_ms: 60000 };
  link.send({ type: 'permission_request', ...question });
  expect(await small(link)).toMatchObject({ type: 'permission_answer', decision: 'deny' });
});

test('a tool that no message can hold is not offered on the next link, and the others are', async () => {
  const wordy = tool('wordy', () => 1, { description: 'x'.repeat(5000) });
  const others = ['one', 'two', 'three'].map((name) => tool(name, () => 1, { description: 'y'.repeat(1500) }));
  const [one, first] = await online({}, wordy, ...others);
  first.cut();
  const link = await server.link();
  await link.greet(SMALL);
  const names: unknown[] = [];
  while (names.length < 3) names.push(...((await small(link)).tools as JsonObject[]).map(({ name }) => name));
  expect(names).toEqual(['one', 'two', 'three']);
  expect(one.device.rejected.wordy).toContain('4096');
});

test('kept answers that do not fit are given another form, or are errors', async () => {
  const image = { kind: 'image', media_type: 'image/png', data: 'eHh4'.repeat(2000) };
  const answers: JsonObject[] = [
    { type: 'tool_result', id: 'c1', output: 'x'.repeat(5000) },
    { type: 'tool_error', id: 'c2', error: 'y'.repeat(50_000), code: 'busy' },
    { type: 'tool_result', id: 'c3', output: '', parts: [image] },
  ];
  const seen = answers.map((answer) => {
    return { id: answer.id, at: Date.now() / 1000, stage: 'answered', answer: JSON.stringify(answer) };
  });
  const state = { load: () => JSON.stringify({ v: 1, resume_token: 't1', seen }), save: () => {} };
  const [, link] = await online({ state });
  const told = [await small(link), await small(link), await small(link)];
  told.sort((one, other) => String(one.id).localeCompare(String(other.id)));
  // Nobody takes uploads there.
  expect(told.map(({ type, id, code }) => [type, id, code])).toEqual([
    ['tool_error', 'c1', 'network_error'],
    ['tool_error', 'c2', 'busy'],
    ['tool_error', 'c3', 'network_error'],
  ]);
});
