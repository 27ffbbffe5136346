import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  AnswerError,
  ConnectionError,
  GraphError,
  HandspanClient,
  NotFoundError,
  type StreamChunk,
} from '../src/index.js';
import { breaks, chunk, fails, lastChunk, message, streams, TestServer } from './support/server.js';

let server: TestServer;
let client: HandspanClient;
beforeEach(async () => {
  server = await TestServer.start();
  client = new HandspanClient({ baseUrl: server.url, timeout: 60_000 });
});
afterEach(() => server.close());

/** What came of a stream: its chunks, then its result or its error. */
async function watched(answer: Parameters<TestServer['answers']>[0]) {
  server.answers(answer);
  const running = client.stream('hello');
  const chunks: StreamChunk[] = [];
  try {
    for (;;) {
      const next = await running.next();
      if (next.done) return { chunks, result: next.value, error: undefined };
      chunks.push(next.value);
    }
  } catch (error) {
    return { chunks, result: undefined, error: error as GraphError };
  }
}

const word = (text: string, more: object = {}) =>
  chunk('message', { message: message('assistant', [{ type: 'text', text }], more) });

test('a line that is no JSON ends the stream with an error that shows it', async () => {
  const { chunks, error } = await watched(streams(word('one'), '{"event": "message", broken\n', lastChunk('two')));
  expect(chunks).toHaveLength(1);
  expect(error).toBeInstanceOf(AnswerError);
  expect(error?.message).toContain('{"event": "message", broken');
});

test.each(['null\n', '7\n', '"text"\n', '[]\n', '{}\n'])('a line with %j is no chunk', async (line) => {
  expect((await watched(streams(line))).error).toBeInstanceOf(AnswerError);
});

test('a page of HTML in place of a stream is no stream', async () => {
  expect((await watched(streams('<html>\n<body>Hello</body>'))).error).toBeInstanceOf(AnswerError);
});

test('a refusal before the first chunk is thrown as any other', async () => {
  const { error } = await watched(fails(404, 'RESOURCE_NOT_FOUND', 'No such agent.'));
  expect(error).toBeInstanceOf(NotFoundError);
});

test('a connection that is cut in the middle is an error, after what came', async () => {
  const { chunks, error } = await watched(breaks(word('half')));
  expect(chunks).toHaveLength(1);
  expect(error).toBeInstanceOf(ConnectionError);
});

test('a stream that ends before the run does is an error that names the thread', async () => {
  const { error } = await watched(streams(word('half', { delta: true })));
  expect(error).toBeInstanceOf(ConnectionError);
  expect(error).toMatchObject({ threadId: 't-1', message: expect.stringContaining("threadMessages('t-1')") });
});

test('an empty stream is an error', async () => {
  expect((await watched(streams())).error).toBeInstanceOf(ConnectionError);
});

test('an error after the stream began is shown and thrown', async () => {
  const data = { reason: 'The model is out of order.', code: 'GRAPH_ERROR' };
  const { chunks, error } = await watched(streams(word('one'), chunk('error', { data })));
  expect(chunks.map((one) => one.event)).toEqual(['message', 'error']);
  expect(error).toBeInstanceOf(GraphError);
  expect(error).toMatchObject({ message: 'The model is out of order.', code: 'GRAPH_ERROR', threadId: 't-1' });
});

test('an error chunk that says nothing is an error all the same', async () => {
  const { error } = await watched(streams(chunk('error')));
  expect(error).toMatchObject({ name: 'GraphError', code: 'GRAPH_ERROR' });
});

test('characters that are cut in two come together again', async () => {
  const bytes = new TextEncoder().encode(word('übermäßig 🙂') + lastChunk('日本語'));
  const single = Array.from(bytes, (_, place) => bytes.slice(place, place + 1));
  const { chunks, result } = await watched(streams(...single));
  expect(chunks.map((one) => one.message?.text())).toEqual(['übermäßig 🙂', '日本語']);
  expect(result?.messages.map((one) => one.text())).toEqual(['übermäßig 🙂', '日本語']);
});

test('lines may be empty, end with CR, come together, and the last one need not end', async () => {
  const { chunks } = await watched(streams(`\r\n${word('a').trim()}\r\n\n${word('b')}${lastChunk('c').trim()}`));
  expect(chunks.map((one) => one.message?.text())).toEqual(['a', 'b', 'c']);
});

test('deltas are for those who watch, and count for nothing', async () => {
  const call = { type: 'remote_tool_call', id: 'c-1', name: 'add', args: {}, tool_type: 'remote' };
  const delta = chunk('message', { message: message('assistant', [call], { delta: true }) });
  const { chunks, result } = await watched(streams(word('he', { delta: true }), delta, lastChunk('hello')));
  expect(chunks).toHaveLength(3);
  expect(result?.messages.map((one) => one.text())).toEqual(['hello']);
  expect(result?.iterations).toBe(1);
});

test('blocks of kinds that nobody knows yet stay what they are', async () => {
  const odd = chunk('message', { message: message('assistant', [{ type: 'hologram', depth: 3 }]) });
  const { chunks } = await watched(streams(odd, lastChunk('ok')));
  expect(chunks[0]?.message?.content).toEqual([{ type: 'hologram', depth: 3 }]);
});

test('the time that a reader takes is not the silence of the gateway', async () => {
  server.answers(streams(word('one'), lastChunk('two')));
  const hasty = new HandspanClient({ baseUrl: server.url, timeout: 100 });
  const seen: string[] = [];
  for await (const one of hasty.stream('hello')) {
    seen.push(one.message?.text() ?? '');
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  expect(seen).toEqual(['one', 'two']);
});
