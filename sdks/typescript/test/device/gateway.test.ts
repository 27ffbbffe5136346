// A device at the real gateway: calls come in by REST, links are cut by a proxy.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { WebSocket as PackageSocket } from 'ws';
import type { ChannelMessage } from '../../src/device/channel-message.js';
import type { CallContext, DeviceTool } from '../../src/device/tool.js';
import { TestGateway } from '../support/gateway.js';
import { bounded, Queue } from './support/bounded.js';
import { LinkProxy } from './support/link-proxy.js';
import { Started, tool } from './support/started.js';

let gateway: TestGateway;
let proxy: LinkProxy;
let started: Started[] = [];
/** A label is free again when the gateway's grace time for its last device is over. */
let labels = 0;

beforeAll(async () => {
  gateway = await TestGateway.start('--set', 'channels.page={}');
  proxy = await LinkProxy.start(gateway.url);
});

afterEach(async () => {
  proxy.heal();
  await Promise.all(started.map((one) => one.close()));
  started = [];
});

afterAll(async () => {
  await proxy?.close();
  await gateway?.close();
});

/** A device that is online, or was refused. */
async function start(options: Partial<ConstructorParameters<typeof Started>[0]>, ...tools: DeviceTool[]) {
  const one = new Started({ url: gateway.url, token: gateway.token, label: `page${++labels}`, ...options }, ...tools);
  started.push(one);
  await one.until('online');
  return one;
}

async function ask(method: string, path: string, body?: object): Promise<Response> {
  const headers = { Authorization: `Bearer ${gateway.token}`, 'Content-Type': 'application/json' };
  return fetch(gateway.url + path, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
}

/** The envelope that the engine gives, once the tool is listed. */
async function call(name: string, args: object = {}): Promise<Record<string, unknown>> {
  const answer = await ask('POST', `/api/tools/${name.replace('page', `page${labels}`)}/call`, { args });
  return (await answer.json()) as Record<string, unknown>;
}

/** A handler that tells of every call, and answers when it is told to. */
function held() {
  const begun = new Queue<CallContext>();
  const results = new Queue<unknown>();
  const handler = (_: unknown, context: CallContext) => {
    begun.put(context);
    return results.take();
  };
  return { begun, results, handler };
}

test('a token that the gateway does not know ends it for good, and says so', async () => {
  const one = new Started({ url: gateway.url, token: 'wrong' });
  const end = await bounded(one.ended, 'the end');
  expect(end.status).toBe('closed');
  expect(end.reason).toContain('401');
});

test('a token that is revoked closes it for good', async () => {
  const made = (await (await ask('POST', '/api/tokens', { scopes: ['device'], label: 'shortlived' })).json()) as {
    token: string;
  };
  const one = await start({ token: made.token });
  const { tokens } = (await (await ask('GET', '/api/tokens')).json()) as { tokens: { id: string; label: string }[] };
  await ask('DELETE', `/api/tokens/${tokens.find(({ label }) => label === 'shortlived')?.id}`);
  expect(await bounded(one.ended, 'the end')).toEqual({
    status: 'closed',
    reason: 'the token was revoked',
    code: 1008,
  });
});

test('a token of a device may not be a chat', async () => {
  const made = (await (await ask('POST', '/api/tokens', { scopes: ['device'] })).json()) as { token: string };
  const one = new Started({ url: gateway.url, token: made.token, role: 'chat' });
  expect((await bounded(one.ended, 'the end')).reason).toContain('device');
});

test('a tool that the gateway can not take is named with the reason', async () => {
  const one = await start(
    {},
    tool('broken', () => 1, { parameters: { type: 'nonsense' } }),
    tool('good', () => 1),
  );
  expect(await call('page__good')).toEqual({ status: 'success', result: 1 });
  expect(Object.keys(one.device.rejected)).toEqual(['broken']);
});

test('a call runs the handler with its arguments, and its JSON is the result', async () => {
  const one = await start(
    {},
    tool('add', ({ a, b }) => ({ sum: a + b })),
  );
  expect(one.device.label).toBe(`page${labels}`);
  expect(await call('page__add', { a: 1, b: 2 })).toEqual({ status: 'success', result: { sum: 3 } });
});

test('the WebSocket of the package ws does as well as the global one', async () => {
  await start(
    { webSocket: PackageSocket },
    tool('hello', () => 'hi'),
  );
  expect(await call('page__hello')).toEqual({ status: 'success', result: 'hi' });
});

test('with prefix false the tools have their own names', async () => {
  await start(
    { prefix: false },
    tool('plainly_named', () => 'hi'),
  );
  expect(await call('plainly_named')).toEqual({ status: 'success', result: 'hi' });
});

test('a handler that throws is a failure with its text and its code', async () => {
  await start(
    {},
    tool('denied', () => {
      throw Object.assign(new Error('The camera was denied.'), { code: 'permission_denied' });
    }),
  );
  const envelope = await call('page__denied');
  expect(envelope.status).toBe('error');
  expect(JSON.stringify(envelope)).toContain('The camera was denied.');
  expect(JSON.stringify(envelope)).toContain('permission_denied');
});

test('a tool that comes while it is online can be called, and one that goes can not', async () => {
  const one = await start({});
  one.device.registerTool(tool('late', () => 'here'));
  await expect.poll(() => call('page__late')).toEqual({ status: 'success', result: 'here' });
  expect(one.device.unregister('late')).toBe(true);
  expect(one.device.unregister('late')).toBe(false);
  await expect.poll(async () => (await call('page__late')).status).toBe('error');
});

test('progress lets the time of a call begin anew', async () => {
  const steps = new Queue<CallContext>();
  await start(
    {},
    tool(
      'long',
      async (_, context) => {
        for (let step = 0; step < 4; step++) {
          await new Promise((resolve) => setTimeout(resolve, 500)); // the work itself: longer than the tool's time
          context.progress({ step });
          steps.put(context);
        }
        return 'done';
      },
      { timeout: 1.5 },
    ),
  );
  expect(await call('page__long')).toEqual({ status: 'success', result: 'done' });
  expect(steps.size).toBe(4);
});

test('a call whose time is over at the gateway aborts the signal', async () => {
  const { begun, handler } = held();
  await start({}, tool('never', handler, { timeout: 0.2 }));
  const envelope = await call('page__never');
  expect(JSON.stringify(envelope)).toContain('timeout');
  const { signal } = await begun.next('a call');
  await expect.poll(() => signal.aborted).toBe(true);
});

test('an image comes as a part, and a large one by way of an upload', async () => {
  const small = new Blob([new Uint8Array([137, 80, 78, 71])], { type: 'image/png' });
  const large = new File([new Uint8Array(400_000)], 'large.bin', { type: 'application/octet-stream' });
  await start(
    {},
    tool('camera', () => ({ output: 'a photo', parts: [small] })),
    tool('file', () => large),
    tool('text', () => 'x'.repeat(1_500_000)),
  );
  const photo = await call('page__camera');
  expect(photo).toMatchObject({ status: 'success', result: 'a photo' });
  expect(JSON.stringify(photo)).toContain('image/png');
  const file = await call('page__file');
  const kept = JSON.stringify(file).match(/"(?:id|artifact)":"([^"]+)"/)?.[1];
  const read = await ask('GET', `/api/artifacts/${kept}`);
  expect((await read.arrayBuffer()).byteLength).toBe(400_000);
  expect(JSON.stringify(await call('page__text'))).toContain('result.txt');
});

test('a result that is given while the link is down counts once, after it is back', async () => {
  const { begun, results, handler } = held();
  const one = await start({ url: proxy.url }, tool('slow', handler, { annotations: {} }));
  const answer = call('page__slow');
  await begun.next('a call');
  proxy.cut();
  const waiting = await one.until('waiting');
  expect(waiting.reason).not.toBe('');
  results.put('after the drop');
  proxy.heal();
  await one.until('online');
  expect(await answer).toEqual({ status: 'success', result: 'after the drop' });
  expect(begun.size).toBe(0);
});

test('a call that runs through a drop is not begun again', async () => {
  const { begun, results, handler } = held();
  const one = await start({ url: proxy.url }, tool('slow', handler, { annotations: {} }));
  const answer = call('page__slow');
  await begun.next('a call');
  proxy.cut();
  await one.until('waiting');
  proxy.heal();
  await one.until('online'); // now the gateway sends the request again
  const { status } = await call('page__nothing'); // and has sent it before this is answered
  expect(status).toBe('error');
  results.put('once');
  expect(await answer).toEqual({ status: 'success', result: 'once' });
  expect(begun.size).toBe(0);
});

test('a device that is reloaded in a call that changes things says that nobody knows', async () => {
  const { begun, handler } = held();
  let file: string | null = null;
  let isAlive = true;
  const state = {
    load: () => file,
    save: (text: string) => {
      if (isAlive) file = text;
    },
  };
  await start({ url: proxy.url, state }, tool('pay', handler, { annotations: {} }));
  const answer = call('page__pay');
  await begun.next('a call');
  isAlive = false; // what a page that is gone would have written is not written
  proxy.cut();
  await started.pop()?.close();
  proxy.heal();
  const next = held();
  isAlive = true;
  await start({ url: proxy.url, state, label: `page${labels}` }, tool('pay', next.handler, { annotations: {} }));
  expect(JSON.stringify(await answer)).toContain('unknown_outcome');
  expect(next.begun.size).toBe(0);
});

test('a permission is asked for here before the call comes, and with a no nothing runs', async () => {
  const asked: string[] = [];
  const runs: string[] = [];
  await start(
    {
      onPermission: ({ permission, tool: name }) => {
        asked.push(`${name} ${permission}`);
        return permission === 'camera' ? 'allow' : { decision: 'deny', howToEnable: 'Open the settings.' };
      },
    },
    tool('photo', () => runs.push('photo') && 'a photo', { permissions: ['camera'] }),
    tool('listen', () => runs.push('listen'), { permissions: ['microphone'] }),
  );
  expect(JSON.stringify(await finished('page__listen'))).toContain('permission_denied');
  expect(JSON.stringify(await finished('page__photo'))).toContain('a photo');
  expect(asked).toEqual(['listen microphone', 'photo camera']);
  expect(runs).toEqual(['photo']);
});

/** The envelope of a call for which a person may be asked: it comes later (202). */
async function finished(name: string): Promise<unknown> {
  const answer = await ask('POST', `/api/tools/${name.replace('page', `page${labels}`)}/call`, { args: {} });
  const body = (await answer.json()) as { call_id: string };
  if (answer.status !== 202) return body;
  let last: { result?: unknown; status?: string } = {};
  await expect
    .poll(async () => {
      last = (await (await ask('GET', `/api/calls/${body.call_id}`)).json()) as typeof last;
      return JSON.stringify(last);
    })
    .toMatch(/success|denied/);
  return last;
}

test('a chat says something, calls its own tools, and hears how it ended', async () => {
  const one = await start(
    { role: 'chat', label: undefined },
    tool('locale', () => 'de-CH'),
  );
  const heard: string[] = [];
  let text: unknown;
  for await (const event of one.device.say('call locale {}\nthen\nIt is {results}')) {
    heard.push(event.type);
    if (event.type === 'ended') text = event.text;
  }
  expect(heard.at(-1)).toBe('ended');
  expect(heard).toContain('call_started');
  expect(String(text)).toContain('de-CH');
});

test('a chat that goes through a drop hears the end of its answer once', async () => {
  const { begun, results, handler } = held();
  const one = await start({ url: proxy.url, role: 'chat' }, tool('slow', handler));
  const events = one.device.say('call slow {}\nthen\nIt is {results}');
  const heard: string[] = [];
  const listening = (async () => {
    for await (const event of events) heard.push(event.type);
  })();
  await begun.next('a call');
  proxy.cut();
  await one.until('waiting');
  results.put('worth waiting for');
  proxy.heal();
  await bounded(listening, 'the end of the answer');
  expect(heard.filter((type) => type === 'ended')).toHaveLength(1);
});

test('a session id that can be none ends it with the reason', async () => {
  const one = new Started({ url: gateway.url, token: gateway.token, role: 'chat', session: 'no such name!' });
  const { status, reason } = await bounded(one.ended, 'the end');
  expect(status).toBe('closed');
  expect(reason).toContain('session');
});

test('the gateway dies and comes back: so does the device, and its tools', async () => {
  const one = await start(
    {},
    tool('hello', () => 'hi'),
  );
  await gateway.restart();
  await one.until('online');
  await expect.poll(() => call('page__hello'), { timeout: 60_000 }).toEqual({ status: 'success', result: 'hi' });
});

test('what an agent writes to the person comes to devices and chats that show it', async () => {
  const shown = new Queue<ChannelMessage>();
  const message = (chat_id: string, content: string) =>
    ask('POST', '/api/tools/message/call', { args: { channel: 'page', chat_id, content } }).then((one) => one.json());
  await start({}); // it has no listener, so it is not asked to show anything
  expect(await message('all', 'Is there nobody?')).toMatchObject({ status: 'error', code: 'disconnected' });
  await start({ onChannelMessage: (one) => shown.put(one) });
  await start({ role: 'chat', session: 'here', onChannelMessage: (one) => shown.put(one) });
  expect(await message('all', 'Dinner')).toMatchObject({ status: 'success' });
  const wanted = { channel: 'page', chatId: 'all', content: 'Dinner' };
  expect([await shown.next('a message'), await shown.next('a message')]).toEqual([wanted, wanted]);
  expect(await message('here', 'Only you')).toMatchObject({ status: 'success' });
  expect(await shown.next('a message')).toEqual({ channel: 'page', chatId: 'here', content: 'Only you' });
});
