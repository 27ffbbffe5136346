import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { AuthenticationError, HandspanClient, type RunResult, ValidationError } from '../../src/index.js';
import { TestGateway } from '../support/gateway.js';

let gateway: TestGateway;
let client: HandspanClient;
beforeAll(async () => {
  gateway = await TestGateway.start();
});
beforeEach(() => {
  client = new HandspanClient({ baseUrl: gateway.url, token: gateway.token });
  client.registerTool({ name: 'add', handler: ({ a, b }) => a + b, annotations: { read_only: true } });
});
afterAll(() => gateway.close());

/** What the model got as results in the last round, which it says by `{results}`. */
function results({ messages }: RunResult): Record<string, unknown>[] {
  return JSON.parse(messages.at(-1)?.text() ?? '');
}

test('a token that is not known is an AuthenticationError', async () => {
  const stranger = new HandspanClient({ baseUrl: gateway.url, token: 'wrong' });
  await expect(stranger.invoke('hello')).rejects.toBeInstanceOf(AuthenticationError);
});

test('a schema that can not be used is a ValidationError that names the place', async () => {
  client.registerTool({ name: 'bad', parameters: { type: 'object', properties: 7 }, handler: () => 1 });
  const error = await client.setup().catch((error) => error);
  expect(error).toBeInstanceOf(ValidationError);
  expect(error.status).toBe(422);
  expect(error.details[0].loc).toEqual(expect.arrayContaining(['tools', '1']));
});

test('a handler that throws is a failure that the model hears of', async () => {
  client.registerTool({ name: 'risky', handler: () => Promise.reject(new Error('Something went wrong')) });
  const result = await client.invoke('call risky\nthen\n{results}');
  expect(results(result)).toEqual([expect.objectContaining({ status: 'error' })]);
  expect(JSON.stringify(results(result))).toContain('Something went wrong');
});

test('a handler that never returns is a timeout that the model hears of', async () => {
  client.registerTool({ name: 'stuck', timeout: 0.05, handler: () => new Promise(() => {}) });
  const result = await client.invoke('call stuck\nthen\n{results}');
  expect(results(result)).toEqual([expect.objectContaining({ status: 'error', error_type: 'timeout' })]);
});

test('arguments that do not fit are told to the model, and the handler is not run', async () => {
  const handler = vi.fn();
  const parameters = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  client.registerTool({ name: 'count', parameters, handler });
  const result = await client.invoke('call count {"n": "many"}\nthen\n{results}');
  expect(results(result)).toEqual([expect.objectContaining({ status: 'error' })]);
  expect(handler).not.toHaveBeenCalled();
});

test('words are answered by words', async () => {
  const result = await client.invoke('Good morning.');
  expect(result.messages.map((one) => [one.role, one.text()])).toEqual([
    ['user', 'Good morning.'],
    ['assistant', 'Good morning.'],
  ]);
  expect(result).toMatchObject({ iterations: 1, recursion_limit_reached: false });
  expect(result.meta).toMatchObject({ is_new_thread: true, status: 'completed' });
});

test('three calls of one round run at once, and the model gets the three results', async () => {
  let running = 0;
  const together: (() => void)[] = [];
  client.registerTool({
    name: 'meet',
    handler: async ({ n }) => {
      running += 1;
      await new Promise<void>((resolve) => {
        together.push(resolve);
        if (together.length === 3) for (const go of together) go();
      });
      return n;
    },
  });
  const result = await client.invoke('call meet {"n":1}\ncall meet {"n":2}\ncall meet {"n":3}\nthen\n{results}');
  expect(running).toBe(3);
  expect(results(result).map((one) => one.result)).toEqual([1, 2, 3]);
  expect(result.iterations).toBe(2);
});

test('a tool of the gateway in the same round comes first, and the page runs its own', async () => {
  const result = await client.invoke(
    'call add {"a":1,"b":2}\ncall get_current_time {"timezone":"UTC"}\nthen\n{results}',
  );
  expect(results(result).map((one) => one.status)).toEqual(['success', 'success']);
  expect(results(result)[0]?.result).toBe(3);
});

test('rounds follow each other until none is left', async () => {
  const result = await client.invoke('call add {"a":1,"b":2}\nthen\ncall add {"a":3,"b":4}\nthen\n{results}');
  expect(results(result)[0]?.result).toBe(7);
  expect(result.iterations).toBe(3);
  const ids = result.all_messages.map((one) => one.message_id).filter(Boolean);
  expect(new Set(ids).size).toBe(ids.length);
});

test('the limit of rounds ends a run, and says so', async () => {
  const script = Array(5).fill('call add {"a":1,"b":1}').join('\nthen\n');
  const result = await client.invoke(script, { recursion_limit: 2 });
  expect(result.recursion_limit_reached).toBe(true);
  expect(result.meta.status).toBe('limit');
  expect(result.iterations).toBe(3);
});

test('what the page says of each request is what the gateway said', async () => {
  const heard: unknown[] = [];
  const result = await client.invoke('call add {"a":1,"b":2}\nthen\ndone', {
    response_granularity: 'full',
    onPartialResult: ({ meta, has_tool_calls }) => heard.push([meta.status, has_tool_calls]),
  });
  expect(heard).toEqual([
    ['interrupted', true],
    ['completed', false],
  ]);
  expect(result.context?.length).toBeGreaterThan(2);
  expect(result.state).not.toBeNull();
});

test('a thread goes on where it was', async () => {
  const first = await client.invoke('Remember me.');
  const config = { thread_id: first.meta.thread_id };
  const second = await client.invoke('Do you?', { config });
  expect(second.meta).toMatchObject({ thread_id: first.meta.thread_id, is_new_thread: false });
});

test('two clients with one token and the same tool names each run only their own calls', async () => {
  const other = new HandspanClient({ baseUrl: gateway.url, token: gateway.token });
  const both = [client, other].map((one, place) => {
    const handler = vi.fn(() => `of client ${place}`);
    one.registerTool({ name: 'who', handler });
    return { handler, running: one.invoke('call who\nthen\ncall who\nthen\n{results}') };
  });
  for (const [place, { handler, running }] of both.entries()) {
    expect(results(await running)[0]?.result).toBe(`of client ${place}`);
    expect(handler).toHaveBeenCalledTimes(2);
  }
});

test('a client without tools is offered none of another with the same token', async () => {
  await client.setup();
  const bare = new HandspanClient({ baseUrl: gateway.url, token: gateway.token });
  const result = await bare.invoke('{tools}');
  expect(JSON.parse(result.messages.at(-1)?.text() ?? '')).not.toContain('add');
});

test('an abort stops the run in the gateway', async () => {
  const aborting = new AbortController();
  client.registerTool({ name: 'wait', handler: () => new Promise(() => aborting.abort()) });
  const config = { thread_id: `abort-${Date.now()}` };
  const running = client.invoke('call wait', { signal: aborting.signal, config });
  await expect(running).rejects.toMatchObject({ name: 'AbortError' });
  await vi.waitFor(async () => {
    const { state } = (await client.threadState(config.thread_id)).data;
    expect(state.execution_meta.interrupt_data?.open_calls ?? []).toEqual([]);
  });
});

test('a page that was reloaded goes on with the call that waits', async () => {
  const config = { thread_id: `reload-${Date.now()}` };
  const gone = new AbortController();
  // A tab that is closed says nothing any more: its stop never arrives.
  const closing = (url: string | URL | Request, request?: RequestInit) =>
    gone.signal.aborted ? Promise.reject(new TypeError('closed')) : fetch(url, request);
  const tab = new HandspanClient({ baseUrl: gateway.url, token: gateway.token, fetch: closing });
  tab.registerTool({ name: 'wait', handler: () => new Promise(() => gone.abort()) });
  await expect(tab.invoke('call wait\nthen\n{results}', { config, signal: gone.signal })).rejects.toThrow();
  const reloaded = new HandspanClient({ baseUrl: gateway.url, token: gateway.token });
  reloaded.registerTool({ name: 'wait', handler: () => 'after the reload' });
  const result = await reloaded.resume(config.thread_id);
  expect(result && results(result)[0]?.result).toBe('after the reload');
  expect(await reloaded.resume(config.thread_id)).toBeUndefined();
});

test('results whose answer got lost are sent again, and count once', async () => {
  let lost = 0;
  const lossy: typeof fetch = async (url, request) => {
    const response = await fetch(url, request);
    if (!String(request?.body).includes('tool_result') || lost === 2) return response;
    await response.text();
    lost += 1;
    throw new TypeError('fetch failed');
  };
  const handler = vi.fn(() => 'ran');
  const page = new HandspanClient({ baseUrl: gateway.url, token: gateway.token, fetch: lossy });
  page.registerTool({ name: 'once', handler });
  const result = await page.invoke('call once\nthen\n{results}');
  expect(results(result)[0]?.result).toBe('ran');
  expect(lost).toBe(2);
  expect(handler).toHaveBeenCalledTimes(1);
});

test('a picture that a handler returns reaches the gateway as a part', async () => {
  const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  client.registerTool({
    name: 'photo',
    handler: () => new Blob([Uint8Array.from(atob(pixel), (c) => c.charCodeAt(0))], { type: 'image/png' }),
  });
  const result = await client.invoke('call photo\nthen\n{results}');
  expect(results(result)).toEqual([expect.objectContaining({ status: 'success' })]);
});
