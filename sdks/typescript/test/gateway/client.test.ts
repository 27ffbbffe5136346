// A client of the real gateway where there is no WebSocket of the platform's own, and what a page hears of its tools.
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WebSocket as PackageSocket } from 'ws';
import { HandspanClient, type ProgressEvent, type ToolCallEvent } from '../../src/index.js';
import { TestGateway } from '../support/gateway.js';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await TestGateway.start();
});
afterAll(() => gateway.close());

const connected = (more: object = {}) => new HandspanClient({ baseUrl: gateway.url, token: gateway.token, ...more });

test('with the WebSocket of the package ws a chat does as well as with the global one', async () => {
  vi.stubGlobal('WebSocket', undefined); // as in Node 20
  try {
    const told: string[] = [];
    const client = connected({ webSocket: PackageSocket, debug: (text: string) => told.push(text) });
    client.registerTool({ name: 'add', handler: ({ a, b }) => a + b });
    const chat = client.chat();
    for (const [b, sum] of [
      [1, 2],
      [2, 3],
    ]) {
      let last = '';
      for await (const chunk of chat.send(`call add {"a":1,"b":${b}}\nthen\n{results}`)) {
        if (chunk.message?.role === 'assistant' && !chunk.message.delta) last = chunk.message.text();
      }
      expect(JSON.parse(last)[0].result).toBe(sum);
    }
    chat.close();
    expect(told).toEqual([]); // it did not fall back to HTTP
  } finally {
    vi.unstubAllGlobals();
  }
});

test.each(['invoke', 'stream', 'chat'] as const)('the page hears of calls and of their progress: %s', async (way) => {
  const calls: ToolCallEvent[] = [];
  const steps: ProgressEvent[] = [];
  const client = connected({
    onToolCall: (event: ToolCallEvent) => calls.push(event),
    onProgress: (event: ProgressEvent) => steps.push(event),
  });
  client.registerTool({
    node: 'page',
    name: 'count',
    handler: ({ to }, { progress }) => {
      for (let n = 1; n <= to; n++) progress(n);
      return to;
    },
  });
  const script = 'call count {"to": 2}\nthen\n{results}';
  if (way === 'invoke') await client.invoke(script);
  else for await (const _ of way === 'stream' ? client.stream(script) : client.chat().send(script));
  expect(calls.map(({ node, name, status }) => [node, name, status])).toEqual([
    ['page', 'count', 'started'],
    ['page', 'count', 'completed'],
  ]);
  expect(steps.map(({ callId, value }) => [callId, value])).toEqual([1, 2].map((n) => [calls[0]?.callId, n]));
});

test('a tool of a node that the agent does not have is not offered to it', async () => {
  const own = await TestGateway.start('--set', 'agents={"General": {}, "Searcher": {"nodes": ["search"]}}');
  try {
    const client = new HandspanClient({ baseUrl: own.url, token: own.token });
    client.registerTool({ node: 'search', name: 'web', handler: () => 1 });
    client.registerTool({ node: 'code', name: 'run', handler: () => 1 });
    const offered = async (agent: string) =>
      JSON.parse((await client.invoke('{tools}', { config: { agent } })).messages.at(-1)?.text() ?? '');
    expect(await offered('General')).toEqual(expect.arrayContaining(['web', 'run']));
    expect(await offered('Searcher')).toContain('web');
    expect(await offered('Searcher')).not.toContain('run');
  } finally {
    await own.close();
  }
});
