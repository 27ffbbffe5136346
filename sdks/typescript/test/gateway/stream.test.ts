import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  HandspanClient,
  Message,
  type RunOptions,
  type RunResult,
  type StreamChunk,
  ToolResultBlock,
} from '../../src/index.js';
import { TestGateway } from '../support/gateway.js';

let gateway: TestGateway;
let client: HandspanClient;
beforeAll(async () => {
  gateway = await TestGateway.start();
});
beforeEach(() => {
  client = new HandspanClient({ baseUrl: gateway.url, token: gateway.token });
  client.registerTool({ name: 'add', handler: ({ a, b }) => a + b });
});
afterAll(() => gateway.close());

type Say = (text: string, options?: RunOptions) => AsyncGenerator<StreamChunk, RunResult>;

async function watched(running: AsyncGenerator<StreamChunk, RunResult>) {
  const chunks: StreamChunk[] = [];
  for (;;) {
    const next = await running.next();
    if (next.done) return { chunks, result: next.value, words: next.value.messages.at(-1)?.text() ?? '' };
    chunks.push(next.value);
  }
}

const ways: [string, Say][] = [
  ['stream', (text, options) => client.stream(text, options)],
  ['chat', (text, options) => client.chat().send(text, options)],
];

describe.each(ways)('%s', (_, say) => {
  test('a handler that throws is a failure that the model hears of', async () => {
    client.registerTool({ name: 'risky', handler: () => Promise.reject(new Error('Something went wrong')) });
    const { words } = await watched(say('call risky\nthen\n{results}'));
    expect(JSON.parse(words)).toEqual([expect.objectContaining({ status: 'error' })]);
    expect(words).toContain('Something went wrong');
  });

  test('a handler that never returns is a timeout that the model hears of', async () => {
    client.registerTool({ name: 'stuck', timeout: 0.05, handler: () => new Promise(() => {}) });
    const { words } = await watched(say('call stuck\nthen\n{results}'));
    expect(JSON.parse(words)).toEqual([expect.objectContaining({ error_type: 'timeout' })]);
  });

  test('an agent that is not there is an error', async () => {
    const error = await watched(say('hello', { config: { agent: 'Nobody' } })).catch((error) => error);
    expect(error.message).toContain('Nobody');
  });

  test('words come piece by piece, then whole', async () => {
    const long = 'The quick brown fox jumps over the lazy dog, again and again. '.repeat(4).trim();
    const { chunks, words } = await watched(say(long));
    const deltas = chunks.filter((one) => one.message?.delta);
    expect(deltas.length).toBeGreaterThan(1);
    expect(deltas.map((one) => one.message?.text()).join('')).toBe(long);
    expect(words).toBe(long);
    expect(new Set(chunks.map((one) => one.thread_id)).size).toBe(1);
  });

  test('three calls of one round are run, and the run goes on', async () => {
    const script = [1, 2, 3].map((n) => `call add {"a":${n},"b":1}`).join('\n');
    const { result, words } = await watched(say(`${script}\nthen\n{results}`));
    expect(JSON.parse(words).map((one: { result: number }) => one.result)).toEqual([2, 3, 4]);
    expect(result).toMatchObject({ iterations: 2, recursion_limit_reached: false });
    expect(result.meta).toMatchObject({ status: 'completed' });
  });

  test.each([1_000, 2_000_000, 12_000_000])('a Blob of %i bytes gets through', async (bytes) => {
    client.registerTool({ name: 'film', handler: () => new File([new Uint8Array(bytes)], 'film.bin') });
    const { words } = await watched(say('call film\nthen\n{results}'));
    expect(JSON.parse(words)).toMatchObject([{ status: 'success', attachments: [{ name: 'film.bin', bytes }] }]);
  });

  test('an output of some megabytes gets through', async () => {
    client.registerTool({ name: 'letters', handler: () => 'x'.repeat(2_000_000) });
    const { words } = await watched(say('call letters\nthen\n{results}'));
    expect(JSON.parse(words)).toMatchObject([{ status: 'success' }]);
  });

  test('the limit of rounds ends a run, and says so', async () => {
    const script = Array(4).fill('call add {"a":1,"b":1}').join('\nthen\n');
    const { result } = await watched(say(script, { recursion_limit: 1 }));
    expect(result).toMatchObject({ recursion_limit_reached: true, meta: { status: 'limit' } });
  });

  test('with full granularity the updates and the state come too', async () => {
    const { chunks } = await watched(say('call add {"a":1,"b":1}', { response_granularity: 'full' }));
    const events = new Set(chunks.map((one) => one.event));
    expect(events).toContain('updates');
    expect(events).toContain('state');
  });

  test('an abort while a handler runs ends it, and stops the run', async () => {
    const aborting = new AbortController();
    let callId = '';
    const stopped = new Promise<void>((resolve) => {
      const watchedFetch: typeof fetch = async (url, request) => {
        const response = await fetch(url, request);
        if (String(url).endsWith('/stop')) resolve();
        return response;
      };
      client = new HandspanClient({ baseUrl: gateway.url, token: gateway.token, fetch: watchedFetch });
    });
    client.registerTool({
      name: 'wait',
      handler: (_, context) => {
        callId = context.callId;
        aborting.abort();
        return new Promise(() => {});
      },
    });
    await expect(watched(say('call wait', { signal: aborting.signal }))).rejects.toMatchObject({ name: 'AbortError' });
    await stopped;
    const late = Message.tool_message([new ToolResultBlock(callId, 1)]);
    await expect(client.invoke(late)).rejects.toMatchObject({
      name: 'GraphError',
      status: 422,
      code: 'GRAPH_ANSWERED_CALL',
    });
  });
});

test('messages of a chat are one conversation', async () => {
  const chat = client.chat();
  const first = await watched(chat.send('Remember me.'));
  const second = await watched(chat.send('Do you?'));
  expect(second.result.meta).toMatchObject({ thread_id: first.result.meta.thread_id, is_new_thread: false });
  expect(chat.threadId).toBe(first.result.meta.thread_id);
  chat.close();
});

test('a chat goes on after the gateway was killed while a handler ran', async () => {
  const own = await TestGateway.start();
  try {
    const page = new HandspanClient({ baseUrl: own.url, token: own.token });
    page.registerTool({ name: 'restart', handler: () => own.restart().then(() => 'it is back') });
    const { words } = await watched(page.chat().send('call restart\nthen\n{results}'));
    expect(JSON.parse(words)[0].result).toBe('it is back');
    const { messages } = await page.invoke('call restart\nthen\n{results}');
    expect(messages.at(-1)?.text()).toContain('it is back');
  } finally {
    await own.close();
  }
});
