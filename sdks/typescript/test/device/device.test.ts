// A device and a gateway that is played by the test: what goes wrong, and what it says of itself.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { Address } from '../../src/device/address.js';
import { Device } from '../../src/device/device.js';
import type { JsonObject } from '../../src/device/frames.js';
import { usualBackoff } from '../../src/device/link.js';
import type { DeviceOptions } from '../../src/device/options.js';
import type { Question, QuestionAnswer } from '../../src/device/question.js';
import type { CallContext, DeviceTool } from '../../src/device/tool.js';
import { bounded, Queue } from './support/bounded.js';
import { type ServerLink, SocketServer } from './support/socket-server.js';
import { Started, tool } from './support/started.js';

let server: SocketServer;
let started: Started[] = [];

beforeEach(async () => {
  server = await SocketServer.start();
});

afterEach(async () => {
  await Promise.all(started.map((one) => one.close()));
  started = [];
  await server.close();
});

function start(options: Partial<DeviceOptions> = {}, ...tools: DeviceTool[]): Started {
  const one = new Started({ url: server.url, token: 'token', ...options }, ...tools);
  started.push(one);
  return one;
}

/** A device that is online, and its link. */
async function online(options: Partial<DeviceOptions>, ...tools: DeviceTool[]): Promise<[Started, ServerLink]> {
  const one = start(options, ...tools);
  const link = await greeted(tools.length);
  return [one, link];
}

async function greeted(tools: number, given: JsonObject = {}): Promise<ServerLink> {
  const link = await server.link();
  await link.greet(given);
  if (tools > 0) await link.frames.next('register_tools');
  return link;
}

function request(link: ServerLink, id: string, name: string, more: JsonObject = {}): void {
  link.send({ type: 'tool_call_request', id, name, args: {}, ...more });
}

/** What the device answers to a call of this handler. */
async function answerTo(handler: DeviceTool['handler'], connected: JsonObject = {}): Promise<JsonObject> {
  start({}, tool('it', handler));
  const link = await greeted(1, connected);
  request(link, 'c1', 'it');
  return link.frames.next('the answer');
}

describe('what can not work is said at once', () => {
  test.each(['ftp://host', 'http://user@host', 'http://host?token=t', 'http://host#x', '127.0.0.1:42617', 'nonsense'])(
    'the address %j',
    (url) => {
      expect(() => new Device({ url })).toThrow("is no gateway's address");
    },
  );

  test('a schema that can not be told as JSON Schema', () => {
    const parameters = { '~standard': { validate: () => ({ value: 1 }) } };
    const offer = () => new Device({ url: 'http://host' }).tool({ name: 'it', parameters, handler: () => 1 });
    expect(offer).toThrow('JSON Schema');
  });

  test('a token with characters that no token has', () => {
    expect(() => new Device({ url: 'http://host', token: 'two words' })).toThrow('no token of a gateway');
  });

  test('no WebSocket anywhere', () => {
    vi.stubGlobal('WebSocket', undefined);
    try {
      expect(() => new Device({ url: 'http://host' })).toThrow('`webSocket`');
    } finally {
      vi.unstubAllGlobals();
    }
  });

  test('run beside another run', async () => {
    const one = start();
    await expect(one.device.run()).rejects.toThrow('runs already');
  });

  test('a word of a device that is no chat', async () => {
    const [one] = await online({});
    expect(() => one.device.say('hello')).toThrow("role 'chat'");
  });

  test('a WebSocket that can not be made', async () => {
    class Forbidden {
      constructor() {
        throw new Error('insecure');
      }
    }
    const one = new Started({ url: server.url, webSocket: Forbidden as never });
    expect(await bounded(one.ended, 'the end')).toEqual({ status: 'closed', reason: 'Error: insecure' });
  });

  test('a state that can not be read', async () => {
    const state = { load: () => Promise.reject(new Error('locked')), save: () => {} };
    const one = new Started({ url: server.url, state });
    await expect(one.ended).rejects.toThrow('locked');
    expect(one.device.state).toEqual({ status: 'closed', reason: 'Error: locked' });
  });
});

describe('closing', () => {
  test.each([
    [1000, '', 'The gateway ended the connection (1000).'],
    [1000, 'enough', 'enough'],
    [1008, 'the token was revoked', 'the token was revoked'],
    [4001, 'replaced', 'replaced'],
  ])('%i %j ends it for good', async (code, said, reason) => {
    const [one, link] = await online({});
    link.close(code, said);
    expect(await bounded(one.ended, 'the end')).toEqual({ status: 'closed', reason, code });
    expect(one.device.state.status).toBe('closed');
  });

  test.each([1001, 1011, 1012, 1013])('%i does not: it comes back', async (code) => {
    const [one, link] = await online({});
    await one.until('online');
    link.close(code, 'for a moment');
    const { reason } = await one.until('waiting');
    expect(reason).toContain(`for a moment (${code})`);
    await greeted(0);
    await one.until('online');
  });

  test('the session of somebody else ends it with what the gateway says', async () => {
    const one = start({ role: 'chat', session: 's 1' });
    const link = await server.link();
    expect(link.request.url).toBe('/prefix/ws/chat?session_id=s%201');
    link.send({ type: 'error', message: 'It is not yours.', code: 'SESSION_OWNER_MISMATCH' });
    link.close(1000);
    expect(await bounded(one.ended, 'the end')).toEqual({ status: 'closed', reason: 'It is not yours.', code: 1000 });
  });

  test('a refused token ends it, even where a browser does not say why', async () => {
    const refusing = createServer((_, response) => response.writeHead(401).end());
    await new Promise<void>((resolve) => refusing.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`;
    const one = new Started({ url, token: 'wrong' });
    expect((await bounded(one.ended, 'the end')).reason).toContain('401');
    refusing.close();
  });

  test('a gateway that is not there is waited for, and close ends that', async () => {
    const { url } = server;
    await server.close();
    const one = new Started({ url });
    await one.until('waiting');
    await one.until('connecting');
    await one.until('waiting');
    expect(await one.close()).toEqual({ status: 'closed', reason: 'It was closed by this program.' });
    server = await SocketServer.start();
  });

  test('a signal closes it, also one that was aborted before', async () => {
    const control = new AbortController();
    const device = new Device({ url: server.url });
    const ended = device.run({ signal: control.signal });
    const link = await greeted(0);
    control.abort();
    expect((await bounded(ended, 'the end')).status).toBe('closed');
    expect(await bounded(link.closed, 'the goodbye')).toBe(1000);
    expect((await device.run({ signal: control.signal })).status).toBe('closed');
  });

  test('close sends what there is to send, and tells handlers that run', async () => {
    const begun = new Queue<CallContext>();
    const [one, link] = await online(
      { concurrency: 2 },
      tool('quick', () => 'quick'),
      tool('slow', (_, context) => {
        begun.put(context);
        return new Promise(() => {});
      }),
    );
    request(link, 'c1', 'slow');
    request(link, 'c2', 'quick');
    const { signal } = await begun.next('a call');
    await one.until('online');
    await link.settled();
    await one.close();
    expect(signal.aborted).toBe(true);
    expect((await link.frames.next('the answer')).id).toBe('c2');
    expect(await bounded(link.closed, 'the goodbye')).toBe(1000);
  });

  test.each(['connecting', 'online', 'waiting'] as const)(
    'it can be closed by who hears that it is %s',
    async (when) => {
      const device: Device = new Device({
        url: server.url,
        backoff: { first: 1e6, longest: 1e6 },
        onState: ({ status }) => status === when && device.close(),
      });
      const ended = device.run();
      if (when !== 'connecting') {
        const link = await greeted(0);
        if (when === 'waiting') link.cut();
      }
      expect((await bounded(ended, 'the end')).reason).toBe('It was closed by this program.');
    },
  );

  test('it can be run again after it was closed', async () => {
    const [one] = await online({});
    await one.close();
    const ended = one.device.run();
    await greeted(0);
    one.device.close();
    expect((await bounded(ended, 'the end')).status).toBe('closed');
  });
});

describe('the link', () => {
  test('what is no frame is passed over', async () => {
    const [, link] = await online(
      {},
      tool('it', () => 1),
    );
    for (const data of ['{', '[]', 'null', '{}', '"text"', new Uint8Array([1, 2])]) link.sendRaw(data);
    link.send({ type: 'news' });
    link.send({ type: 'tool_call_request', id: 'c1', name: 'it' });
    expect(await link.frames.next('the answer')).toEqual({ type: 'tool_result', id: 'c1', output: 1, success: true });
  });

  test('a gateway that is silent is asked for a word, and given up when none comes', async () => {
    const [one, link] = await online({ heartbeat: 400 });
    expect(await link.frames.next('a word')).toEqual({ type: 'ping' });
    expect((await one.until('waiting')).reason).toContain('silent');
    await greeted(0);
    await one.until('online');
  });

  test.each<[string, JsonObject]>([
    ['with a pong', { type: 'pong' }],
    [
      'that it does not know it',
      { type: 'error', message: 'Frames of type ping are not known.', code: 'UNKNOWN_MESSAGE_TYPE' },
    ],
  ])('a gateway that answers a ping %s is not given up', async (_, answer) => {
    const [one, link] = await online({ heartbeat: 700 });
    for (let beat = 0; beat < 3; beat++) {
      expect(await link.frames.next('a word')).toEqual({ type: 'ping' });
      link.send(answer);
    }
    expect(one.device.state.status).toBe('online');
  });

  test('a computer that is online again does not wait', async () => {
    const target = new EventTarget();
    vi.stubGlobal('addEventListener', target.addEventListener.bind(target));
    vi.stubGlobal('removeEventListener', target.removeEventListener.bind(target));
    try {
      const [one, link] = await online({ backoff: { first: 1e6, longest: 1e6 } });
      link.cut();
      await one.until('waiting');
      target.dispatchEvent(new Event('online'));
      await greeted(0);
      await one.close();
    } finally {
      vi.unstubAllGlobals();
    }
  });

  test('a gateway on this computer is tried again within seconds', () => {
    for (const host of ['localhost', '127.0.0.1:42617', '[::1]:1'])
      expect(usualBackoff(new Address(`http://${host}/`))).toEqual({ longest: 3000 });
    expect(usualBackoff(new Address('wss://gate.example/ws/chat'))).toEqual({});
  });

  test('many large tools come in several frames', async () => {
    const large = (name: string) => tool(name, () => 1, { description: 'x'.repeat(200_000) });
    start({}, large('one'), large('two'), large('three'));
    const link = await server.link();
    await link.greet();
    for (const name of ['one', 'two', 'three']) {
      const frame = await link.frames.next('register_tools');
      expect((frame.tools as JsonObject[]).map((offer) => offer.name)).toEqual([name]);
    }
  });

  test('the label and the rejected tools are those that the gateway says', async () => {
    const one = start(
      { label: 'My page' },
      tool('shell', () => 1),
    );
    const link = await greeted(1, { label: 'my_page_2', notice: 'It is called so here.' });
    link.send({ type: 'tools_registered', count: 1, registered: 0, rejected: [{ name: 'shell', reason: 'built in' }] });
    await link.settled();
    expect(one.device.label).toBe('my_page_2');
    expect(one.device.rejected).toEqual({ shell: 'built in' });
    expect(one.device.notice).toBe('It is called so here.');
    link.send({ type: 'tools_withdrawn', tools: [{ name: 'look', reason: 'of a plugin' }], registered: 0 });
    await link.settled();
    expect(one.device.rejected).toEqual({ shell: 'built in', look: 'of a plugin' });
  });
});

describe('answers', () => {
  test.each<[string, () => unknown, object]>([
    ['a text that was thrown', () => Promise.reject('just text'), { error: 'just text' }],
    ['nothing that was thrown', () => Promise.reject(undefined), { error: 'undefined' }],
    ['an error without a text', () => Promise.reject(new TypeError()), { error: 'TypeError' }],
    [
      'an exception of the DOM, whose code is a number',
      () => Promise.reject(new DOMException('Gone', 'NotFoundError')),
      {},
    ],
  ])('%s', async (_, handler, wanted) => {
    const answer = await answerTo(handler);
    expect(answer).toMatchObject({ type: 'tool_error', id: 'c1', ...wanted });
    expect(answer).not.toHaveProperty('code');
  });

  test('an error with a very long text is cut, so that the link can take it', async () => {
    const answer = await answerTo(() => Promise.reject(new Error('x'.repeat(2_000_000))));
    expect(answer.error).toHaveLength(10_000);
    expect(answer.error).toContain('(cut: it had 2000000 characters)');
  });

  test('nothing is null', async () => {
    expect(await answerTo(() => undefined)).toEqual({ type: 'tool_result', id: 'c1', output: null, success: true });
  });

  test('what is no JSON is an error that says so', async () => {
    expect((await answerTo(() => 1n)).error).toContain('its result is no JSON');
  });

  test('what is nested too deeply is an error that says so', async () => {
    let deep: unknown = 1;
    for (let depth = 0; depth < 64; depth++) deep = [deep];
    expect((await answerTo(() => deep)).error).toContain('nested deeper than 64');
  });

  test('a result that is too large for a gateway without parts is an error', async () => {
    const answer = await answerTo(() => 'x'.repeat(2_000_000), { capabilities: ['resume'] });
    expect(answer.error).toContain('too large');
  });

  test('an upload that fails is an error with a code', async () => {
    const answer = await answerTo(() => new Blob([new Uint8Array(300_000)]));
    expect(answer).toMatchObject({ type: 'tool_error', code: 'network_error' });
    expect(answer.error).toContain('300000 bytes could not be uploaded');
  });

  test('bytes and files are parts, wherever they are', async () => {
    const answer = await answerTo(() => ({
      note: 'two things',
      bytes: new Uint8Array([1, 2, 3]),
      sound: new File(['la'], 'song.mp3', { type: 'audio/mpeg' }),
    }));
    expect(answer.output).toEqual({ note: 'two things', bytes: '(attachment 1)', sound: '(attachment 2)' });
    expect(answer.parts).toEqual([
      { kind: 'file', media_type: 'application/octet-stream', data: 'AQID' },
      { kind: 'audio', media_type: 'audio/mpeg', data: btoa('la'), name: 'song.mp3' },
    ]);
  });

  test('an output with its parts, as handlers of the client give them', async () => {
    const image = new Blob(['x'], { type: 'image/png' });
    const uploaded = { kind: 'file', media_type: 'text/plain', artifact: 'a1' };
    const answer = await answerTo(() => ({ output: { seen: true }, parts: [image, uploaded] }));
    expect(answer.output).toEqual({ seen: true });
    expect(answer.parts).toEqual([{ kind: 'image', media_type: 'image/png', data: btoa('x') }, uploaded]);
  });

  test('an object whose parts are something else is an object', async () => {
    const answer = await answerTo(() => ({ parts: ['wheel', 'door'] }));
    expect(answer.output).toEqual({ parts: ['wheel', 'door'] });
  });

  test('what a browser does not allow has the code of a permission', async () => {
    const answer = await answerTo(() => Promise.reject(new DOMException('No.', 'NotAllowedError')));
    expect(answer).toMatchObject({ error: 'No.', code: 'permission_denied' });
  });

  test('a schema of a library gives its defaults, and says what is wrong', async () => {
    const parameters = z.object({ city: z.string().default('Basel'), days: z.number().max(3).optional() });
    start({}, { name: 'it', annotations: { read_only: true }, parameters, handler: (args) => args } as DeviceTool);
    const link = await server.link();
    await link.greet();
    const { tools } = await link.frames.next('register_tools');
    expect((tools as JsonObject[])[0]).toMatchObject({ parameters: { type: 'object' }, description: '' });
    request(link, 'c1', 'it');
    expect(await link.frames.next('the answer')).toMatchObject({ output: { city: 'Basel' } });
    request(link, 'c2', 'it', { args: { days: 9 } });
    expect(await link.frames.next('the answer')).toMatchObject({ type: 'tool_error', code: 'invalid_arguments' });
  });
});

describe('time', () => {
  test('a handler that does not end is answered for, told, and left behind', async () => {
    const begun = new Queue<CallContext>();
    const [, link] = await online(
      {},
      tool('stuck', (_, context) => {
        begun.put(context);
        return new Promise(() => {});
      }),
      tool('next', () => 'next'),
    );
    request(link, 'c1', 'stuck', { timeout_ms: 50 });
    const { signal, deadline } = await begun.next('a call');
    expect(Math.abs((deadline ?? 0) - Date.now() - 50)).toBeLessThan(1000);
    expect(await link.frames.next('the answer')).toMatchObject({ id: 'c1', code: 'timeout' });
    expect(signal.aborted).toBe(true);
    request(link, 'c2', 'next');
    expect(await link.frames.next('the next answer')).toMatchObject({ id: 'c2', output: 'next' });
  });

  test('a call that gets no turn in time is busy, and never runs', async () => {
    const results = new Queue<string>();
    let runs = 0;
    const [, link] = await online(
      {},
      tool('slow', () => results.take()),
      tool('other', () => ++runs),
    );
    request(link, 'c1', 'slow');
    request(link, 'c2', 'other', { timeout_ms: 20 });
    expect(await link.frames.next('the answer')).toMatchObject({ id: 'c2', code: 'busy' });
    results.put('done');
    expect(await link.frames.next('the answer')).toMatchObject({ id: 'c1', output: 'done' });
    expect(runs).toBe(0);
  });

  test('a tool that is taken back while its call waits is not there', async () => {
    const results = new Queue<string>();
    const [one, link] = await online(
      {},
      tool('slow', () => results.take()),
      tool('other', () => 1),
    );
    request(link, 'c1', 'slow');
    request(link, 'c2', 'other');
    await link.settled();
    one.device.unregister('other');
    expect(await link.frames.next('unregister_tools')).toMatchObject({ names: ['other'] });
    results.put('done');
    expect(await link.frames.next('the answer')).toMatchObject({ id: 'c1' });
    expect(await link.frames.next('the answer')).toMatchObject({ id: 'c2', code: 'tool_not_found' });
  });

  test('progress that is no JSON fails the call that reports it', async () => {
    const answer = await answerTo((_, { progress }) => progress(1n));
    expect(answer).toMatchObject({ type: 'tool_error', id: 'c1' });
  });
});

describe('permissions', () => {
  const question = { type: 'permission_request', id: 'q1', call_id: 'c1', permission: 'camera', expires_ms: 60000 };

  test.each<[string, DeviceOptions['onPermission'], string]>([
    ['nobody can be asked', undefined, 'onPermission'],
    ['asking fails', () => Promise.reject(new Error('no window')), 'no window'],
    ['the answer is none', () => 'perhaps' as never, "'perhaps' is no answer"],
  ])('when %s, it is a no with the reason', async (_, onPermission, reason) => {
    const [, link] = await online({ onPermission });
    link.send({ ...question, tool: 'photo' });
    const answer = await link.frames.next('permission_answer');
    expect(answer).toMatchObject({ id: 'q1', decision: 'deny' });
    expect(answer.how_to_enable).toContain(reason);
  });

  test('the tool is named as the device names it', async () => {
    const asked = new Queue<string>();
    const onPermission: DeviceOptions['onPermission'] = ({ tool: name }) => {
      asked.put(name);
      return 'allow';
    };
    start(
      { onPermission },
      tool('photo', () => 1),
    );
    const link = await greeted(1, { label: 'page' });
    link.send({ ...question, tool: 'page__photo' });
    expect(await asked.next('a question')).toBe('photo');
  });

  test('a question that is too old is taken back, and not answered', async () => {
    const signals = new Queue<AbortSignal>();
    const decisions = new Queue<'allow'>();
    const [, link] = await online(
      {
        onPermission: ({ signal }) => {
          signals.put(signal);
          return decisions.take();
        },
      },
      tool('it', () => 1),
    );
    link.send({ ...question, tool: 'it', expires_ms: 10 });
    const signal = await signals.next('a question');
    await expect.poll(() => signal.aborted).toBe(true);
    decisions.put('allow');
    request(link, 'c1', 'it');
    expect(await link.frames.next('the answer')).toMatchObject({ type: 'tool_result' });
  });
});

describe('state', () => {
  test('a call that changes things does not run when it can not be written that it was begun', async () => {
    let runs = 0;
    const state = {
      load: () => 'something else',
      save: () => {
        throw new Error('full');
      },
    };
    const [, link] = await online(
      { state },
      tool('pay', () => ++runs, { annotations: {} }),
      tool('look', () => 'seen'),
    );
    request(link, 'c1', 'pay');
    expect((await link.frames.next('the answer')).error).toContain('Nothing was run');
    request(link, 'c2', 'look');
    expect(await link.frames.next('the answer')).toMatchObject({ output: 'seen' });
    expect(runs).toBe(0);
  });

  test('a store that takes its time is waited for, in order', async () => {
    const order: string[] = [];
    const state = {
      load: async () => null,
      save: async () => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        order.push('saved');
      },
    };
    const [, link] = await online(
      { state },
      tool('pay', () => order.push('run'), { annotations: {} }),
    );
    request(link, 'c1', 'pay');
    await link.frames.next('the answer');
    expect(order).toEqual(['saved', 'saved', 'run', 'saved']);
  });
});

describe('questions to the person of a chat', () => {
  const QUESTION = {
    type: 'question',
    id: 'q1',
    kind: 'input',
    call_id: '',
    tool: 'paint',
    arguments: {},
    subject: 'Which colour?',
    expires_ms: 60_000,
    schema: { type: 'string' },
  };

  /** A chat that is online, what it is asked, and what its person says. */
  async function asking() {
    const asked = new Queue<Question>();
    const said = new Queue<QuestionAnswer | undefined>();
    const onQuestion = (question: Question) => {
      asked.put(question);
      return said.take();
    };
    const [one, link] = await online({ role: 'chat', onQuestion });
    await one.until('online');
    return { one, link, asked, said };
  }

  test('come with all that is needed to show and to answer them', async () => {
    const { link, asked, said } = await asking();
    const action = { url: 'https://shop.example/login', hint: 'Now.' };
    link.send({ ...QUESTION, action });
    const { signal, ...question } = await asked.next('the question');
    expect(signal.aborted).toBe(false);
    expect(question).toEqual({
      id: 'q1',
      kind: 'input',
      agent: '',
      callId: '',
      tool: 'paint',
      arguments: {},
      subject: 'Which colour?',
      schema: QUESTION.schema,
      action,
      problem: undefined,
    });
    said.put({ decision: 'allow', value: 'blue' });
    expect(await link.frames.next('answer')).toEqual({ type: 'answer', id: 'q1', decision: 'allow', value: 'blue' });
  });

  test('are asked again, with the reason, when the gateway refuses the answer', async () => {
    const { link, asked, said } = await asking();
    link.send(QUESTION);
    await asked.next('the question');
    said.put({ decision: 'allow', value: 7 });
    await link.frames.next('answer');
    link.send({ type: 'error', code: 'INVALID_ANSWER', id: 'q1', message: 'It must be a string.' });
    expect((await asked.next('the question again')).problem).toBe('It must be a string.');
    said.put({ decision: 'allow', value: 'x'.repeat(2 * 1024 * 1024) });
    expect((await asked.next('the question again')).problem).toContain('in one message: answer with less');
    said.put('deny');
    expect(await link.frames.next('answer')).toEqual({ type: 'answer', id: 'q1', decision: 'deny' });
  });

  test('that are answered elsewhere first are over, and what the person says then is not sent', async () => {
    const { link, asked, said } = await asking();
    link.send(QUESTION);
    const { signal } = await asked.next('the question');
    link.send({ type: 'question_closed', id: 'q1', accepted: false });
    await bounded(new Promise((resolve) => signal.addEventListener('abort', resolve)), 'the end of the question');
    said.put('allow');
    link.send({ ...QUESTION, id: 'q2' });
    await asked.next('another question');
    said.put('deny');
    expect(await link.frames.next('answer')).toMatchObject({ id: 'q2', decision: 'deny' });
  });

  test('that nobody answers in time are over', async () => {
    const { link, asked } = await asking();
    link.send({ ...QUESTION, expires_ms: 5 });
    const { signal } = await asked.next('the question');
    if (!signal.aborted) await bounded(new Promise((resolve) => signal.addEventListener('abort', resolve)), 'its end');
    expect(signal.aborted).toBe(true);
  });

  test('are answered after a drop, and the answer is sent until the question is over', async () => {
    const { link, asked, said } = await asking();
    link.send({ type: 'event', seq: 1, event: { type: 'question', question: { ...QUESTION, expires_in: 60 } } });
    await asked.next('the question');
    link.cut();
    said.put({ decision: 'allow', value: 'red' });
    const again = await greeted(0);
    expect(await again.frames.next('answer')).toMatchObject({ id: 'q1', value: 'red' });
    again.cut();
    const third = await greeted(0);
    expect(await third.frames.next('answer')).toMatchObject({ id: 'q1', value: 'red' });
    third.send({ type: 'question_closed', id: 'q1', accepted: true });
    third.send(QUESTION); // it is over, whatever comes late
    third.send({ ...QUESTION, id: 'q2' });
    expect((await asked.next('another question')).id).toBe('q2');
    said.put(undefined);
  });

  test('stay open for others when this program has no answer, or fails', async () => {
    const one = start({
      role: 'chat',
      onQuestion: ({ id }) => {
        if (id === 'q1') throw new Error('broken');
        return id === 'q2' ? undefined : 'allow';
      },
    });
    const link = await greeted(0);
    await one.until('online');
    for (const id of ['q1', 'q2', 'q3']) link.send({ ...QUESTION, id, kind: 'approval' });
    expect(await link.frames.next('answer')).toMatchObject({ id: 'q3' });
  });

  test.each([
    [undefined, false],
    [() => 'deny' as const, true],
  ])('are agreed on when somebody can show them (%#)', async (onQuestion, isAgreed) => {
    start({ role: 'chat', onQuestion });
    const { capabilities } = await (await server.link()).frames.next('connect');
    for (const name of ['questions', 'question_kinds']) {
      expect((capabilities as string[]).includes(name)).toBe(isAgreed);
    }
  });
});

describe('a chat', () => {
  test('goes on when its program throws on an event or a state', async () => {
    const thrown: unknown[] = [];
    const before = process.rawListeners('unhandledRejection') as NodeJS.UnhandledRejectionListener[];
    process.removeAllListeners('unhandledRejection');
    process.on('unhandledRejection', (error) => thrown.push(error));
    try {
      const fail = () => {
        throw new Error('of the program');
      };
      const device = new Device({ url: server.url, role: 'chat', onEvent: fail, onState: fail });
      const ended = device.run();
      const link = await greeted(0);
      await expect.poll(() => device.state.status).toBe('online');
      const events = device.say('hello', { id: 'm1' });
      await link.frames.next('message');
      link.send({ type: 'message_accepted', id: 'm1', turn: 't1' });
      link.send({ type: 'event', seq: 1, turn: 't1', event: { type: 'ended', reason: 'done' } });
      expect(await bounded(events.next(), 'the end')).toMatchObject({ value: { type: 'ended', reason: 'done' } });
      device.close();
      expect((await bounded(ended, 'the end')).status).toBe('closed');
      await expect.poll(() => thrown.length).toBe(4); // connecting, online, the event, closed
    } finally {
      process.removeAllListeners('unhandledRejection');
      for (const listener of before) process.on('unhandledRejection', listener);
    }
  });

  test('hears the end of what it said when the device is closed', async () => {
    const one = start({ role: 'chat' });
    const link = await server.link();
    link.send({ type: 'session_start', v: 1, session_id: 's1', resumed: false, message_count: 0 });
    await link.greet();
    const events = one.device.say('hello');
    await link.frames.next('message');
    link.cut();
    const again = await server.link();
    expect(again.request.url).toBe('/prefix/ws/chat?session_id=s1');
    await one.close();
    expect(await bounded(events.next(), 'the end')).toMatchObject({ value: { type: 'ended', reason: 'error' } });
    expect(await bounded(events.next(), 'the end')).toMatchObject({ done: true });
  });

  test('what is too large to be said is an error, and nothing is sent', async () => {
    const one = start({ role: 'chat' });
    const link = await greeted(0, { limits: { message_bytes: 4096 } });
    await one.until('online');
    const said = await bounded(one.device.say('x'.repeat(5000)).next(), 'the end');
    expect(said.value).toMatchObject({ type: 'ended', reason: 'error' });
    expect(said.value).toMatchObject({ text: expect.stringContaining('takes 4096 in one message') });
    one.device.say('short');
    expect(await link.frames.next('message')).toMatchObject({ content: 'short' });
  });

  test('says that a gateway without events can not be talked to', async () => {
    const one = start({ role: 'chat' });
    await greeted(0, { capabilities: ['resume'] });
    await one.until('online');
    const said = await bounded(one.device.say('hello').next(), 'the end');
    expect(said.value).toMatchObject({ type: 'ended', reason: 'error' });
  });
});
