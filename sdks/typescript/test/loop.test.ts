import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ConnectionError, GraphError, HandspanClient, Message, type PartialResult, ServerError } from '../src/index.js';
import {
  asks,
  breaks,
  chunk,
  data,
  fails,
  lastChunk,
  message,
  said,
  silence,
  streams,
  TestServer,
} from './support/server.js';

let server: TestServer;
let client: HandspanClient;
// Each test has its own server: a request that an earlier test gave up would take an answer of the next one.
beforeEach(async () => {
  server = await TestServer.start();
  client = new HandspanClient({ baseUrl: server.url });
  client.registerTool({ name: 'add', handler: ({ a, b }) => a + b });
});
afterEach(() => server.close());

const runs = () => server.received.filter((one) => /invoke|stream/.test(one.path));
const stops = () => server.received.filter((one) => one.path === '/v1/graph/stop');

// What goes wrong on the way.

test.each([0, 101, 2.5, Number.NaN])(
  'a recursion limit of %d is refused before anything is sent',
  async (recursion_limit) => {
    server.answers(data(said('never')));
    await expect(client.invoke('hello', { recursion_limit })).rejects.toThrow(/from 1 to 100/);
    await expect(client.stream('hello', { recursion_limit }).next()).rejects.toBeInstanceOf(RangeError);
    expect(server.received).toEqual([]);
  },
);

test('results that get lost are sent again, with the same key', async () => {
  server.answers(data(asks(['c-1', 'add', { a: 1, b: 2 }])), breaks(), fails(503, '', 'ending'), data(said('3')));
  const result = await client.invoke('1+2?');
  expect(result.messages.map((one) => one.text())).toEqual(['3']);
  expect(result.iterations).toBe(2);
  const [first, ...tries] = runs();
  expect(tries).toHaveLength(3);
  expect(new Set(tries.map((one) => one.headers['idempotency-key'])).size).toBe(1);
  expect(tries[0]?.headers['idempotency-key']).toMatch(/^[0-9a-f]{32}$/);
  expect(first?.headers['idempotency-key']).toBeUndefined();
  expect(tries[2]?.body).toEqual(tries[0]?.body);
});

test('results of a stream are sent again when nobody was reached', async () => {
  const call = { type: 'remote_tool_call', id: 'c-1', name: 'add', args: { a: 1, b: 2 }, tool_type: 'remote' };
  server.answers(streams(chunk('message', { message: message('tool', [call]) })), breaks(), streams(lastChunk('3')));
  const texts: string[] = [];
  for await (const one of client.stream('1+2?')) texts.push(one.message?.text() ?? '');
  expect(texts).toEqual(['', '3']);
  expect(runs()).toHaveLength(3);
});

test('a first message is not sent again', async () => {
  server.answers(breaks());
  await expect(client.invoke('hello')).rejects.toBeInstanceOf(ConnectionError);
  expect(runs()).toHaveLength(1);
});

test('what the gateway refuses is not sent again', async () => {
  server.answers(data(asks(['c-1', 'add'])), fails(422, 'GRAPH_ANSWERED_CALL', 'It has its result.'));
  await expect(client.invoke('hello')).rejects.toBeInstanceOf(GraphError);
  expect(runs()).toHaveLength(2);
  expect(stops()).toEqual([]);
});

test('an abort ends the sending again', async () => {
  const aborting = new AbortController();
  let tries = 0;
  server.answers(data(asks(['c-1', 'add'])), (response) => {
    tries += 1;
    response.writeHead(503).end();
    if (tries === 2) aborting.abort(new Error('enough'));
  });
  await expect(client.invoke('hello', { signal: aborting.signal })).rejects.toThrow('enough');
  expect(tries).toBe(2);
  await vi.waitFor(() => expect(stops()).toHaveLength(1));
});

test('sending again has an end', async () => {
  vi.useFakeTimers();
  try {
    const fetch = vi.fn(async () => new Response('', { status: 503 }));
    fetch.mockResolvedValueOnce(new Response(JSON.stringify({ data: asks(['c-1', 'add']) })));
    const lonely = new HandspanClient({ baseUrl: '', fetch });
    const running = lonely.invoke('hello').catch((error) => error);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await running).toBeInstanceOf(ServerError);
    expect(fetch).toHaveBeenCalledTimes(7);
  } finally {
    vi.useRealTimers();
  }
});

test('results that came too late are left out, and the others sent', async () => {
  const late = { loc: ['body', 'results', '0', 'call_id'], msg: 'expired', type: 'value_error' };
  const refused = fails(422, 'GRAPH_EXPIRED_CALL', 'It has expired.', [late]);
  server.answers(data(asks(['c-1', 'add'], ['c-2', 'add', { a: 1, b: 1 }])), refused, data(said('two')));
  expect((await client.invoke('hello')).messages[0]?.text()).toBe('two');
  expect(runs()[2]?.body.messages).toEqual([
    { role: 'tool', content: [expect.objectContaining({ call_id: 'c-2', output: 2 })] },
  ]);
});

test('results of which all came too late are an error', async () => {
  const late = { loc: ['body', 'results', '0', 'call_id'], msg: 'expired', type: 'value_error' };
  server.answers(data(asks(['c-1', 'add'])), fails(422, 'GRAPH_EXPIRED_CALL', 'It has expired.', [late]));
  await expect(client.invoke('hello')).rejects.toMatchObject({ code: 'GRAPH_EXPIRED_CALL' });
});

test('a gateway that asks for ever is not answered for ever', async () => {
  const next = (number: number) => data(asks([`c-${number}`, 'add']));
  server.answers(next(1), next(2), next(3), next(4), next(5));
  const result = await client.invoke('hello', { recursion_limit: 3 });
  expect(result).toMatchObject({ iterations: 4, recursion_limit_reached: true });
  expect(runs()).toHaveLength(4);
  await vi.waitFor(() => expect(stops()).toHaveLength(1));
});

test('a call that comes again is not run again', async () => {
  const handler = vi.fn();
  client.registerTool({ name: 'once', handler });
  server.answers(
    data(asks(['c-1', 'once'])),
    data(asks(['c-1', 'once'], ['c-2', 'once'])),
    data(asks(['c-2', 'once'])),
  );
  const result = await client.invoke('hello');
  expect(handler).toHaveBeenCalledTimes(2);
  expect(result).toMatchObject({ iterations: 3, recursion_limit_reached: false });
});

test('an answer with nothing in it is a result with nothing in it', async () => {
  server.answers(data(null));
  const result = await client.invoke('hello', { config: { thread_id: 'mine' } });
  expect(result).toMatchObject({ messages: [], iterations: 1, recursion_limit_reached: false });
  expect(result.meta).toEqual({ is_new_thread: false, thread_id: 'mine' });
});

// Aborting.

test('a run that was aborted before it began sends nothing', async () => {
  server.answers(data(said('never')));
  await expect(client.invoke('hello', { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
  expect(server.received).toEqual([]);
});

test('an abort ends the request, and stops the run in its thread', async () => {
  const aborting = new AbortController();
  server.answers(() => aborting.abort());
  const running = client.invoke('hello', { signal: aborting.signal });
  await expect(running).rejects.toMatchObject({ name: 'AbortError' });
  await vi.waitFor(() => expect(stops()).toHaveLength(1));
  expect(stops()[0]?.body).toEqual({ thread_id: runs()[0]?.body.config.thread_id });
});

test('an abort while a handler runs ends it, and stops the run', async () => {
  server.answers(data(asks(['c-1', 'wait'])));
  const aborting = new AbortController();
  const told = new Promise((resolve) => {
    client.registerTool({
      name: 'wait',
      handler: (_, { signal }) => {
        signal.addEventListener('abort', () => resolve(signal.reason));
        aborting.abort(new Error('enough'));
        return new Promise(() => {});
      },
    });
  });
  await expect(client.invoke('hello', { signal: aborting.signal })).rejects.toThrow('enough');
  expect(await told).toEqual(new Error('enough'));
  await vi.waitFor(() => expect(stops()[0]?.body).toEqual({ thread_id: 't-1' }));
});

test('a reader who leaves the stream ends the request, and stops the run', async () => {
  const closed = new Promise<void>((resolve) => {
    server.answers((response) => {
      response.on('close', resolve);
      response.writeHead(200).write(chunk('message', { message: message('user', []) }));
    });
  });
  for await (const one of client.stream('hello')) {
    expect(one.thread_id).toBe('t-1');
    break;
  }
  await closed;
  await vi.waitFor(() => expect(stops()[0]?.body).toEqual({ thread_id: 't-1' }));
});

test('a callback that throws ends the run, and stops it', async () => {
  server.answers(data(asks(['c-1', 'add'])));
  const onPartialResult = () => Promise.reject(new Error('my own mistake'));
  await expect(client.invoke('hello', { onPartialResult })).rejects.toThrow('my own mistake');
  await vi.waitFor(() => expect(stops()).toHaveLength(1));
});

test("that the stop got lost is nobody's trouble", async () => {
  const aborting = new AbortController();
  server.answers(() => aborting.abort());
  server.stopping = breaks();
  await expect(client.invoke('hello', { signal: aborting.signal })).rejects.toMatchObject({ name: 'AbortError' });
  await vi.waitFor(() => expect(stops()).toHaveLength(1));
});

test('a gateway that is silent is given up, and the run is left to it', async () => {
  const hasty = new HandspanClient({ baseUrl: server.url, timeout: 30 });
  server.answers(silence);
  await expect(hasty.invoke('hello')).rejects.toMatchObject({ name: 'TimeoutError' });
  await expect(hasty.stream('hello').next()).rejects.toMatchObject({ name: 'TimeoutError' });
  expect(stops()).toEqual([]);
});

// The way it goes.

test('requests have the tools, the thread and only what counts of the messages', async () => {
  server.answers(data(asks(['c-1', 'add', { a: 1, b: 2 }], ['c-2', 'add', { a: 3, b: 4 }])), data(said('done')));
  const person = Object.assign(Message.text_message('1+2 and 3+4?'), { message_id: '0' });
  await client.invoke(['Please:', person], {
    config: { agent: 'Math', shelf: 3 },
    initial_state: { x: 1 },
    recursion_limit: 5,
    response_granularity: 'full',
  });
  const [first, second] = runs().map((one) => one.body);
  const tool = { node_name: 'tools', name: 'add', description: '', parameters: {}, timeout: 330 };
  const thread_id = first.config.thread_id;
  expect(thread_id).toMatch(/^[0-9a-f]{32}$/);
  expect(first).toEqual({
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Please:' }] },
      { role: 'user', content: [{ type: 'text', text: '1+2 and 3+4?' }] },
    ],
    config: { agent: 'Math', shelf: 3, thread_id },
    initial_state: { x: 1 },
    recursion_limit: 5,
    response_granularity: 'full',
    tools: [tool],
  });
  const answer = (call_id: string, output: number) => ({
    role: 'tool',
    content: [{ type: 'tool_result', call_id, output, is_error: false, status: 'completed' }],
  });
  expect(second).toEqual({
    messages: [answer('c-1', 3), answer('c-2', 7)],
    config: { agent: 'Math', shelf: 3, thread_id: 't-1' },
    recursion_limit: 5,
    response_granularity: 'full',
    tools: [tool],
  });
});

test('the page hears of every request, and the run waits for it', async () => {
  server.answers(data(asks(['c-1', 'add', { a: 1, b: 2 }])), data({ ...said('3'), context: [message('user', [])] }));
  const heard: PartialResult[] = [];
  const result = await client.invoke('1+2?', {
    onPartialResult: async (partial) => {
      await new Promise(setImmediate);
      heard.push(partial);
      expect(runs()).toHaveLength(partial.iteration);
    },
  });
  expect(heard.map(({ iteration, has_tool_calls, is_final }) => [iteration, has_tool_calls, is_final])).toEqual([
    [1, true, false],
    [2, false, true],
  ]);
  expect(result.context?.[0]).toBeInstanceOf(Message);
  expect(result.all_messages.map((one) => one.role)).toEqual(['tool', 'tool', 'assistant']);
  expect(result.meta.thread_id).toBe('t-1');
});

test('a tool that is registered while a run waits is there in the next request', async () => {
  server.answers(data(asks(['c-1', 'open'])), data(said('done')));
  client.registerTool({ name: 'open', handler: () => client.registerTool({ name: 'inner', handler: () => 1 }) });
  await client.invoke('open it');
  expect(runs().map((one) => one.body.tools.map((tool: { name: string }) => tool.name))).toEqual([
    ['add', 'open'],
    ['add', 'open', 'inner'],
  ]);
});

test('a page that was reloaded goes on with the calls that wait for it', async () => {
  const open_calls = [{ id: 'c-1', name: 'add', args: { a: 2, b: 2 }, expires_at: 9 }];
  const state = { context: [], execution_meta: { status: 'interrupted_after', interrupt_data: { open_calls } } };
  server.answers(data({ state }), data(said('4')));
  const result = await client.resume('t-1');
  expect(result?.messages[0]?.text()).toBe('4');
  expect(runs()[0]?.body).toMatchObject({
    messages: [{ role: 'tool', content: [{ call_id: 'c-1', output: 4 }] }],
    config: { thread_id: 't-1' },
  });
});

test('a thread in which nothing waits has nothing to go on with', async () => {
  server.answers(data({ state: { context: [], execution_meta: { status: 'completed', interrupt_data: null } } }));
  expect(await client.resume('t-1')).toBeUndefined();
});
