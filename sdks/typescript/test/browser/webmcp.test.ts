// Tools that a page registers at document.modelContext, for our agents, and ours there: in chromium's own form and in
// that of a polyfill, which takes arguments as text.
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import type { InPage } from './support/page.js';
import { Tabs } from './support/tabs.js';

declare const handspan: InPage['handspan'];
declare const Device: InPage['Device'];
declare const webmcp: InPage['webmcp'];
declare const say: InPage['say'];

/** The part of the draft that pages use. */
interface PageContext {
  registerTool(tool: object, options?: { signal: AbortSignal }): Promise<void>;
  getTools(): Promise<{ name: string; annotations?: object }[]>;
  executeTool(tool: object, input: unknown): Promise<string>;
}
declare const document: Document & { modelContext: PageContext };

const POLYFILL = 'node_modules/@mcp-b/webmcp-polyfill/dist/index.iife.js';

describe.each([
  { where: 'the browser', flags: ['--enable-features=WebMCP'] },
  { where: 'a polyfill', flags: [] },
])('with $where', ({ where, flags }) => {
  const tabs = new Tabs({ gateway: [], flags });
  const gateway = () => ({ baseUrl: tabs.gateway.url, token: tabs.gateway.token });
  const results = (ended: { text: string }) => JSON.parse(ended.text) as Record<string, unknown>[];

  async function open(): Promise<Page> {
    const page = await tabs.open();
    if (where === 'a polyfill') await page.addScriptTag({ path: POLYFILL });
    return page;
  }

  test('what a page registers is a tool of the agent, with its arguments, its answer and its failure', async () => {
    const page = await open();
    const ended = await page.evaluate(async (to) => {
      const inputSchema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };
      const { modelContext } = document;
      await modelContext.registerTool({
        name: 'double',
        description: 'Doubles a number',
        inputSchema,
        annotations: { readOnlyHint: true },
        execute: async ({ a }: { a: number }) => ({ twice: a * 2 }),
      });
      await modelContext.registerTool({
        name: 'greet',
        description: 'Greets',
        execute: async () => ({ content: [{ type: 'text', text: 'Hello' }] }),
      });
      await modelContext.registerTool({ name: 'plain', description: 'Says so', execute: async () => 'just words' });
      await modelContext.registerTool({
        name: 'broken',
        description: 'Fails',
        execute: async () => {
          throw new Error('no luck');
        },
      });
      const client = new handspan.HandspanClient(to);
      await webmcp.offerPageTools(client);
      return say(client, 'invoke', 'call double {"a": 21}\ncall greet\ncall plain\ncall broken\nthen\n{results}');
    }, gateway());
    expect(results(ended)).toMatchObject([
      { status: 'success', result: { twice: 42 } },
      { status: 'success', result: 'Hello' },
      { status: 'success', result: 'just words' },
      { status: 'error', code: 'execution_failed' },
    ]);
  });

  test('tools of a device follow those of the page, with what their hints say', async () => {
    const page = await open();
    const offered = await page.evaluate(async () => {
      const known = new Map<string, object | undefined>();
      let changed = () => {};
      const device = {
        registerTool: (tool: { name: string; annotations?: object }) => {
          known.set(tool.name, tool.annotations);
          changed();
        },
        unregister: (name: string) => {
          changed();
          return known.delete(name);
        },
      };
      const control = new AbortController();
      const { modelContext } = document;
      const execute = async () => 'done';
      await modelContext.registerTool({
        name: 'look',
        description: 'Looks',
        annotations: { readOnlyHint: true },
        execute,
      });
      const stop = await webmcp.offerPageTools(device);
      const first = [...known];
      const added = new Promise<void>((resolve) => {
        changed = resolve;
      });
      await modelContext.registerTool(
        { name: 'later', description: 'Comes later', execute },
        { signal: control.signal },
      );
      await added;
      const second = [...known];
      const removed = new Promise<void>((resolve) => {
        changed = resolve;
      });
      control.abort();
      await removed;
      await new Promise((resolve) => setTimeout(resolve));
      const third = [...known.keys()];
      stop();
      return { first, second, third, last: [...known.keys()] };
    });
    expect(offered).toEqual({
      first: [['look', { read_only: true }]],
      second: [
        ['look', { read_only: true }],
        ['later', undefined],
      ],
      third: ['look'],
      last: [],
    });
  });

  test('the tools of a page are tools of a connected device, live', async () => {
    const page = await open();
    await page.evaluate(
      ({ url, token }) => {
        const device = new Device({ url, token, label: 'tab' });
        void device.run();
        const execute = async ({ word = '' }: { word?: string }) => `heard ${word}`;
        const listen = { name: 'listen', description: 'Listens', annotations: { readOnlyHint: true }, execute };
        const inputSchema = { type: 'object', properties: { word: { type: 'string' } } };
        return webmcp.offerPageTools(device).then(() => document.modelContext.registerTool({ ...listen, inputSchema }));
      },
      { url: tabs.gateway.url, token: tabs.gateway.token },
    );
    const tool = await found('tab__listen');
    expect(tool).toMatchObject({ annotations: { read_only: true } });
    const answer = await ask('/api/tools/tab__listen/call', { method: 'POST', body: '{"args": {"word": "you"}}' });
    expect(answer).toMatchObject({ status: 'success', result: 'heard you' });
  });

  test('a tool of ours is one of the page too, and is not offered back', async () => {
    const page = await open();
    const seen = await page.evaluate(async () => {
      const { modelContext } = document;
      const offered: string[] = [];
      const stop = await webmcp.registerPageTool({
        name: 'sum',
        description: 'Adds',
        parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
        annotations: { read_only: true },
        handler: ({ a, b }: { a: number; b: number }) => a + b,
      });
      await webmcp.offerPageTools({ registerTool: ({ name }) => void offered.push(name), unregister: () => true });
      const [tool] = await modelContext.getTools();
      const input = Object.defineProperty({ a: 1, b: 2 }, 'toString', { value: () => '{"a": 1, "b": 2}' });
      const answer = await modelContext.executeTool(tool as object, input);
      const again = await webmcp.registerPageTool({ name: 'sum', handler: () => 0 }).catch((error) => error.name);
      stop();
      await new Promise((resolve) => setTimeout(resolve));
      return {
        name: tool?.name,
        hints: tool?.annotations,
        answer,
        again,
        offered,
        left: (await modelContext.getTools()).length,
      };
    });
    expect(seen).toMatchObject({
      name: 'sum',
      hints: { readOnlyHint: true },
      answer: '3',
      again: 'InvalidStateError',
      offered: [],
      left: 0,
    });
  });

  async function ask(path: string, init: RequestInit = {}): Promise<unknown> {
    const headers = { authorization: `Bearer ${tabs.gateway.token}`, 'content-type': 'application/json' };
    return (await fetch(tabs.gateway.url + path, { ...init, headers })).json();
  }

  async function found(name: string): Promise<unknown> {
    for (const last = Date.now() + 60_000; Date.now() < last; await new Promise((resolve) => setTimeout(resolve, 20))) {
      const { tools } = (await ask('/api/tools')) as { tools: { name: string }[] };
      const tool = tools.find((one) => one.name === name);
      if (tool !== undefined) return tool;
    }
    throw new Error(`${name} has not come`);
  }
});

test('a browser without it says what is missing', async () => {
  const { offerPageTools } = await import('../../src/webmcp/index.js');
  const device = { registerTool: () => {} };
  await expect(offerPageTools(device)).rejects.toThrow('document.modelContext');
});
