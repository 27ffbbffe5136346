import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  AnswerError,
  AuthenticationError,
  ConnectionError,
  GraphError,
  HandspanClient,
  TimeoutError,
} from '../src/index.js';
import { chunk, fails, lastChunk, message, streams, TestServer } from './support/server.js';
import { type Peer, SocketServer } from './support/sockets.js';

let server: SocketServer;
let client: HandspanClient;
beforeEach(async () => {
  server = await SocketServer.start();
  client = new HandspanClient({ baseUrl: server.url, token: 'secret', timeout: 60_000 });
});
afterEach(() => server.close());

const done = JSON.stringify({
  event: 'updates',
  data: { status: 'done', meta: { thread_id: 't-1', status: 'completed' } },
});
const words = (text: string) => chunk('message', { message: message('assistant', [{ type: 'text', text }]) });
/** Answers every request with these texts. */
const answers =
  (...texts: string[]) =>
  (_: string, peer: Peer) => {
    for (const text of texts) peer.send(text);
  };

async function texts(chunks: AsyncIterable<{ message: { text(): string } | null }>): Promise<string[]> {
  const said: string[] = [];
  for await (const one of chunks) said.push(one.message?.text() ?? '');
  return said;
}

test('a gateway that is not there is a ConnectionError', async () => {
  const nobody = new HandspanClient({ baseUrl: 'http://127.0.0.1:9' });
  await expect(nobody.chat().send('hello').next()).rejects.toBeInstanceOf(ConnectionError);
});

test('where there is no WebSocket the error says what to do', async () => {
  vi.stubGlobal('WebSocket', undefined);
  try {
    await expect(client.chat().send('hello').next()).rejects.toThrow(/webSocket: WebSocket/);
  } finally {
    vi.unstubAllGlobals();
  }
});

test('a connection that is lost before the end is a ConnectionError, and the next message makes a new one', async () => {
  server.hear = (_, peer) => {
    peer.send(words('half'));
    peer.cut();
  };
  const chat = client.chat();
  await expect(texts(chat.send('hello'))).rejects.toBeInstanceOf(ConnectionError);
  server.hear = answers(words('whole'), done);
  expect(await texts(chat.send('again'))).toEqual(['whole']);
  expect(server.connections).toBe(2);
  chat.close();
});

test('what can not be read is an AnswerError', async () => {
  server.hear = answers('{broken "done"');
  await expect(texts(client.chat().send('hello'))).rejects.toBeInstanceOf(AnswerError);
});

test('silence is a TimeoutError', async () => {
  server.hear = () => {};
  const hasty = new HandspanClient({ baseUrl: server.url, timeout: 50 });
  await expect(texts(hasty.chat().send('hello'))).rejects.toBeInstanceOf(TimeoutError);
});

test('an error is shown and thrown, and the connection stays', async () => {
  server.hear = answers(chunk('error', { data: { reason: 'Out of order.', code: 'GRAPH_ERROR' } }), done);
  const chat = client.chat();
  const running = chat.send('hello');
  expect((await running.next()).value).toMatchObject({ event: 'error' });
  const error = await running.next().catch((error) => error);
  expect(error).toBeInstanceOf(GraphError);
  expect(error.message).toBe('Out of order.');
  server.hear = answers(words('better'), done);
  expect(await texts(chat.send('again'))).toEqual(['better']);
  expect(server.connections).toBe(1);
});

test('one message at a time', async () => {
  server.hear = () => {};
  const chat = client.chat();
  const first = chat.send('hello');
  void first.next().catch(() => {});
  await expect(chat.send('and this').next()).rejects.toMatchObject({ code: 'GRAPH_BUSY' });
  chat.close();
});

test('a chat that was closed says so', async () => {
  const chat = client.chat();
  chat.close();
  await expect(chat.send('hello').next()).rejects.toThrow(/closed: begin another/);
});

test('a chat that is closed while a handler runs says so, and connects no more', async () => {
  const call = { type: 'remote_tool_call', id: 'c-1', name: 'leave', args: {}, tool_type: 'remote' };
  server.hear = answers(chunk('message', { message: message('tool', [call]) }), done);
  const chat = client.chat();
  client.registerTool({ name: 'leave', handler: () => chat.close() });
  await expect(texts(chat.send('go'))).rejects.toThrow(/closed: begin another/);
  expect(server.connections).toBe(1);
});

test('where no WebSocket gets through, the chat goes by HTTP', async () => {
  const plain = await TestServer.start();
  const told: string[] = [];
  const chat = new HandspanClient({ baseUrl: plain.url, token: 'a', debug: (text) => told.push(text) }).chat();
  plain.answers(streams(lastChunk('by HTTP')));
  expect(await texts(chat.send('hello'))).toEqual(['by HTTP']);
  expect(told[0]).toContain('/v1/graph/ws');
  plain.answers(fails(401, 'AUTHENTICATION_ERROR', 'No valid token.'));
  await expect(texts(chat.send('again'))).rejects.toBeInstanceOf(AuthenticationError);
  await plain.close();
});

test('a WebSocket that can not even be made is no end either', async () => {
  const plain = await TestServer.start();
  plain.answers(fails(401, 'AUTHENTICATION_ERROR', 'No valid token.'));
  const chat = new HandspanClient({ baseUrl: plain.url, token: 'two words' }).chat();
  await expect(texts(chat.send('hello'))).rejects.toBeInstanceOf(AuthenticationError);
  await plain.close();
});

test('an abort while it connects ends the connection', async () => {
  const closed = vi.fn();
  class Slow extends EventTarget {
    readyState = 0;
    send() {}
    close = closed;
  }
  const slow = new HandspanClient({ baseUrl: server.url, webSocket: Slow as never });
  const running = slow.chat().send('hello', { signal: AbortSignal.timeout(20) });
  await expect(running.next()).rejects.toMatchObject({ name: 'TimeoutError' });
  expect(closed).toHaveBeenCalledTimes(1);
});

test('an abort ends the wait at once', async () => {
  const aborting = new AbortController();
  server.hear = () => aborting.abort();
  const running = client.chat().send('hello', { signal: aborting.signal });
  await expect(running.next()).rejects.toMatchObject({ name: 'AbortError' });
});

test('the token goes as a sub-protocol, and only where there is one', async () => {
  const seen: string[][] = [];
  server.hear = (_, peer) => {
    seen.push(peer.protocols);
    peer.send(done);
  };
  await texts(client.chat().send('hello'));
  await texts(new HandspanClient({ baseUrl: server.url }).chat().send('hello'));
  expect(seen).toEqual([['agentflow-bearer', 'secret'], []]);
});

test('messages of a chat share a connection and a thread; calls are answered on it', async () => {
  // biome-ignore lint/suspicious/noExplicitAny: what arrived
  const heard: any[] = [];
  const call = { type: 'remote_tool_call', id: 'c-1', name: 'add', args: { a: 1, b: 2 }, tool_type: 'remote' };
  server.hear = (text, peer) => {
    heard.push(JSON.parse(text));
    const isAsked = heard.length === 1;
    peer.send(isAsked ? chunk('message', { message: message('tool', [call]) }) : words('ok'));
    peer.send(done);
  };
  client.registerTool({ name: 'add', handler: ({ a, b }) => a + b });
  const chat = client.chat({ config: { agent: 'Math' } });
  expect(chat.threadId).toBeUndefined();
  expect(await texts(chat.send('1+2?'))).toEqual(['', 'ok']);
  expect(await texts(chat.send('thanks', { config: { thread_id: undefined, agent: 'Math' } }))).toEqual(['ok']);
  expect(server.connections).toBe(1);
  expect(heard.map((one) => one.invoke_type)).toEqual(['fresh', 'resume', 'fresh']);
  expect(heard[1].tool_result).toEqual([
    { role: 'tool', content: [expect.objectContaining({ call_id: 'c-1', output: 3 })] },
  ]);
  expect(heard[1].messages).toBeUndefined();
  expect(heard.slice(1).map((one) => one.config)).toEqual(Array(2).fill({ agent: 'Math', thread_id: 't-1' }));
  expect(chat.threadId).toBe('t-1');
  chat.close();
});
