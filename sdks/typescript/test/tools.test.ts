import { expect, expectTypeOf, test, vi } from 'vitest';
import { z } from 'zod';
import * as mini from 'zod/mini';
import {
  HandspanClient,
  Message,
  RemoteToolCallBlock,
  TextBlock,
  ToolExecutor,
  type ToolRegistration,
  type ToolResultBlock,
} from '../src/index.js';

const never = new Promise<never>(() => {});
const wanted = (name: string, args: Record<string, unknown> = {}, id = `c-${name}`) =>
  Message.tool_message([new RemoteToolCallBlock(id, name, args)]);

/** The block that answers one call of this tool. */
async function answered(tool: Partial<ToolRegistration>, args: Record<string, unknown> = {}): Promise<ToolResultBlock> {
  const executor = new ToolExecutor([{ name: 'tool', handler: () => null, ...tool }]);
  const [answer] = await executor.executeToolCalls([wanted('tool', args)]);
  expect(answer?.role).toBe('tool');
  expect(answer?.content).toHaveLength(1);
  return answer?.content[0] as ToolResultBlock;
}

// What handlers do wrong.

test.each([
  [new Error('Something went wrong'), { error: 'Something went wrong' }],
  ['a text', { error: 'a text' }],
  [undefined, { error: 'undefined' }],
  [new TypeError(''), { error: 'TypeError' }],
  [Object.assign(new Error('Later.'), { code: 'rate_limited' }), { error: 'Later.', code: 'rate_limited' }],
  [Object.assign(new Error('No such file'), { code: 'ENOENT' }), { error: 'No such file' }],
  [new DOMException('No.', 'NotAllowedError'), { error: 'No.', code: 'permission_denied' }],
  [new DOMException('Gone.', 'NotFoundError'), { error: 'Gone.' }],
])('a handler that throws %s gives a failed result', async (thrown, output) => {
  const handler = () => {
    throw thrown;
  };
  const wantedBlock = { type: 'tool_result', call_id: 'c-tool', is_error: true, status: 'failed', output };
  expect({ ...(await answered({ handler })) }).toEqual(wantedBlock);
  expect({ ...(await answered({ handler: async () => handler() })) }).toEqual(wantedBlock);
});

test('a handler that never returns gives a result after the time of its tool, and is told', async () => {
  let told: AbortSignal | undefined;
  const handler = (_: unknown, context: { signal: AbortSignal }) => {
    told = context.signal;
    return never;
  };
  expect(await answered({ handler, timeout: 0.02 })).toMatchObject({
    is_error: true,
    output: { error: "Tool 'tool' took longer than 0.02 s.", code: 'timeout' },
  });
  expect(told?.aborted).toBe(true);
});

test('a tool that names no time has that of the client', async () => {
  const executor = new ToolExecutor([{ name: 'slow', handler: () => never }], { toolTimeout: 20 });
  const [answer] = await executor.executeToolCalls([wanted('slow')]);
  expect(answer?.content[0]).toMatchObject({ is_error: true, output: { code: 'timeout' } });
});

test('what a handler says after its time counts for nothing', async () => {
  let late = (_: unknown): void => {};
  const handler = () => new Promise((resolve) => (late = resolve));
  const block = await answered({ handler, timeout: 0.01 });
  late('too late');
  await Promise.resolve();
  expect(block.output).toMatchObject({ code: 'timeout' });
});

test.each([
  ['a BigInt', () => 10n],
  ['a circle', () => Object.assign([], { 0: globalThis })],
])('%s, which JSON can not say, gives a failed result', async (_, handler) => {
  expect(await answered({ handler })).toMatchObject({ is_error: true, status: 'failed' });
});

test('a tool that is not there gives a failed result', async () => {
  const [answer] = await new ToolExecutor().executeToolCalls([wanted('nothing')]);
  expect(answer?.content[0]).toMatchObject({
    is_error: true,
    status: 'failed',
    output: { error: "Tool 'nothing' not found", code: 'tool_not_found' },
  });
});

test('an abort ends the calls at once, and every handler is told why', async () => {
  const reasons: unknown[] = [];
  let begun = 0;
  const handler = (_: unknown, { signal }: { signal: AbortSignal }) => {
    begun += 1;
    signal.addEventListener('abort', () => reasons.push(signal.reason));
    return never;
  };
  const executor = new ToolExecutor([{ name: 'a', handler }]);
  const aborting = new AbortController();
  const running = executor.executeToolCalls([wanted('a', {}, '1'), wanted('a', {}, '2')], aborting.signal);
  await expect.poll(() => begun).toBe(2);
  aborting.abort(new Error('enough'));
  await expect(running).rejects.toThrow('enough');
  expect(reasons).toEqual([new Error('enough'), new Error('enough')]);
});

test('after an abort no handler is begun', async () => {
  const handler = vi.fn();
  const executor = new ToolExecutor([{ name: 'a', handler }]);
  await expect(executor.executeToolCalls([wanted('a')], AbortSignal.abort())).rejects.toThrow(/abort/);
  expect(handler).not.toHaveBeenCalled();
});

test('a callback that throws ends the other calls, and says why', async () => {
  const signals: AbortSignal[] = [];
  const handler = (_: unknown, { signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    return signals.length === 1 ? never : 'quick';
  };
  const onToolCall = ({ status }: { status: string }) => {
    if (status === 'completed') throw new Error('my own mistake');
  };
  const executor = new ToolExecutor([{ name: 'a', handler }], { onToolCall });
  await expect(executor.executeToolCalls([wanted('a', {}, '1'), wanted('a', {}, '2')])).rejects.toThrow(
    'my own mistake',
  );
  await vi.waitFor(() => expect(signals[0]?.aborted).toBe(true));
});

test('the page hears of the end of a call that was ended with its run', async () => {
  const heard: object[] = [];
  const aborting = new AbortController();
  const executor = new ToolExecutor([{ name: 'a', handler: () => never }], {
    onToolCall: (event) => heard.push(event),
  });
  const running = executor.executeToolCalls([wanted('a')], aborting.signal);
  aborting.abort();
  await expect(running).rejects.toThrow(/abort/);
  const about = { callId: 'c-a', node: 'tools', name: 'a', args: {} };
  expect(heard).toEqual([
    { ...about, status: 'started' },
    { ...about, status: 'failed' },
  ]);
});

test.each([{ name: 'a' }, { name: '', handler: () => 1 }, { handler: () => 1 }, { name: 'a', handler: 'b' }])(
  'a tool such as %j is refused where it is registered',
  (tool) => {
    expect(() => new ToolExecutor([tool as never])).toThrow(/a name and a handler/);
  },
);

test('a time without end is no time that is over at once', async () => {
  const slow = () => new Promise((resolve) => setTimeout(() => resolve('done'), 30));
  expect(await answered({ timeout: Number.POSITIVE_INFINITY, handler: slow })).toMatchObject({ output: 'done' });
});

// What handlers return.

test.each([
  [undefined, null],
  [null, null],
  [0, 0],
  ['', ''],
  [false, false],
  [
    [1, 'a', null],
    [1, 'a', null],
  ],
  [{ parts: 'of speech' }, { parts: 'of speech' }],
  [{ parts: [1, 2] }, { parts: [1, 2] }],
  [() => 1, null],
])('a handler that returns %j answers %j', async (returned, output) => {
  const block = await answered({ handler: async () => returned });
  expect({ ...block }).toEqual({
    type: 'tool_result',
    call_id: 'c-tool',
    is_error: false,
    status: 'completed',
    output,
  });
});

test('a Blob becomes a part', async () => {
  const image = new Blob([new Uint8Array([0, 255, 128])], { type: 'image/png' });
  expect(await answered({ handler: () => image })).toMatchObject({
    output: null,
    parts: [{ kind: 'image', media_type: 'image/png', data: 'AP+A' }],
  });
});

test('Files and ready parts stand beside an output', async () => {
  const sound = new File(['la'], 'song.ogg', { type: 'audio/ogg' });
  const plain = new Blob(['x'.repeat(100_000)]);
  const kept = { kind: 'file', media_type: 'text/plain', artifact: 'a-1' };
  const block = await answered({ handler: () => ({ output: { seconds: 3 }, parts: [sound, plain, kept] }) });
  expect(block.output).toEqual({ seconds: 3 });
  expect(block.parts?.slice(0, 1)).toEqual([
    { kind: 'audio', media_type: 'audio/ogg', data: 'bGE=', name: 'song.ogg' },
  ]);
  expect(block.parts?.[1]).toMatchObject({ kind: 'file', media_type: 'application/octet-stream' });
  expect(atob(block.parts?.[1]?.data ?? '')).toBe('x'.repeat(100_000));
  expect(block.parts?.[2]).toEqual(kept);
});

// How calls are run.

test('calls of one round run at once, and are answered in their order', async () => {
  let running = 0;
  let most = 0;
  const gates: (() => void)[] = [];
  const handler = async ({ n }: { n: number }) => {
    most = Math.max(most, ++running);
    await new Promise<void>((resolve) => {
      gates.push(resolve);
      if (gates.length === 3) for (const open of gates.reverse()) open();
    });
    return n;
  };
  const executor = new ToolExecutor([{ name: 'a', handler }]);
  const answers = await executor.executeToolCalls([1, 2, 3].map((n) => wanted('a', { n }, `c-${n}`)));
  expect(most).toBe(3);
  expect(answers.map(({ content: [block] }) => (block as ToolResultBlock).output)).toEqual([1, 2, 3]);
});

test('calls run one after the other when that was asked for', async () => {
  const story: string[] = [];
  const handler = async ({ n }: { n: number }) => {
    story.push(`begin ${n}`);
    await new Promise(setImmediate);
    story.push(`end ${n}`);
  };
  const executor = new ToolExecutor([{ name: 'a', handler }], { parallel: false });
  await executor.executeToolCalls([wanted('a', { n: 1 }, '1'), wanted('a', { n: 2 }, '2')]);
  expect(story).toEqual(['begin 1', 'end 1', 'begin 2', 'end 2']);
});

test('an id is run once, and other blocks are left alone', async () => {
  const handler = vi.fn(() => 'ok');
  const executor = new ToolExecutor([{ name: 'a', handler }]);
  const chatter = new Message('assistant', [new TextBlock('calling')]);
  const answers = await executor.executeToolCalls([chatter, wanted('a', {}, '1'), wanted('a', {}, '1')]);
  expect(answers).toHaveLength(1);
  expect(handler).toHaveBeenCalledTimes(1);
});

test('the page hears of the beginning, the progress and the end of a call', async () => {
  const heard: object[] = [];
  const rules = { onToolCall: (event: object) => heard.push(event), onProgress: (event: object) => heard.push(event) };
  const handler = (
    _: unknown,
    context: { progress(value: unknown): void; callId: string; node: string; name: string },
  ) => {
    context.progress(0.5);
    return [context.callId, context.node, context.name];
  };
  const executor = new ToolExecutor([{ node: 'page', name: 'a', handler }], rules);
  await executor.executeToolCalls([wanted('a', { x: 1 })]);
  const about = { callId: 'c-a', node: 'page', name: 'a' };
  expect(heard).toEqual([
    { ...about, args: { x: 1 }, status: 'started' },
    { ...about, value: 0.5 },
    { ...about, args: { x: 1 }, status: 'completed', output: ['c-a', 'page', 'a'] },
  ]);
});

// Who has which tool.

test('of one name on two nodes the last one runs, and both are told to the gateway', async () => {
  const executor = new ToolExecutor([{ node: 'a', name: 'x', description: 'first', handler: () => 'of a' }]);
  executor.registerTool({ node: 'b', name: 'x', handler: () => 'of b' });
  const [answer] = await executor.executeToolCalls([wanted('x')]);
  expect(answer?.content[0]).toMatchObject({ output: 'of b' });
  expect(executor.getToolsForNode('a').map((tool) => tool.description)).toEqual(['first']);
  expect(executor.getToolsForNode('c')).toEqual([]);
  expect(executor.all_tools()).toHaveLength(1);
  expect(executor.remote_tools().map((tool) => [tool.node_name, tool.name])).toEqual([
    ['a', 'x'],
    ['b', 'x'],
  ]);
});

test('of one name on one node only the last one is there', () => {
  const executor = new ToolExecutor();
  executor.registerTool({ name: 'x', description: 'old', handler: () => 1 });
  executor.registerTool({ node: 'tools', name: 'x', description: 'new', handler: () => 2 });
  expect(executor.getToolsForNode('tools').map((tool) => tool.description)).toEqual(['new']);
});

test('a tool that is taken back is gone', async () => {
  const executor = new ToolExecutor([
    { node: 'a', name: 'x', handler: () => 1 },
    { node: 'b', name: 'x', handler: () => 2 },
  ]);
  expect(executor.unregisterTool('x', 'b')).toBe(true);
  expect(executor.unregisterTool('x', 'b')).toBe(false);
  expect(executor.unregisterTool('x')).toBe(true);
  expect(executor.remote_tools()).toEqual([]);
});

test('tools are told in the form of OpenAI', () => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const executor = new ToolExecutor([
    { name: 'get_weather', description: 'The weather', parameters, handler: () => 1 },
    { name: 'bare', handler: () => 1 },
  ]);
  expect(executor.all_tools()).toEqual([
    { type: 'function', function: { name: 'get_weather', description: 'The weather', parameters } },
    {
      type: 'function',
      function: { name: 'bare', description: '', parameters: { type: 'object', properties: {}, required: [] } },
    },
  ]);
});

test('the gateway is told all of a tool, and waits for the slowest one, since results go out together', () => {
  const executor = new ToolExecutor(
    [
      { name: 'quick', handler: () => 1, timeout: 1, permissions: ['camera'], annotations: { read_only: true } },
      { name: 'slow', handler: () => 1, timeout: 90 },
    ],
    { toolTimeout: 5000 },
  );
  const common = { node_name: 'tools', description: '', parameters: {}, timeout: 120 };
  expect(executor.remote_tools()).toEqual([
    { ...common, name: 'quick', permissions: ['camera'], annotations: { read_only: true } },
    { ...common, name: 'slow' },
  ]);
});

// Schemas of libraries.

const city = z.object({ city: z.string().min(2).describe('Name of the city'), days: z.number().default(3) });

test('arguments that a zod schema refuses never reach the handler', async () => {
  const handler = vi.fn();
  const block = await answered({ parameters: city, handler }, { city: 'x', days: 'many' });
  expect(block).toMatchObject({ is_error: true, output: { code: 'invalid_arguments' } });
  expect((block.output as { error: string }).error).toMatch(/^The arguments are not valid: city: .*; days: /);
  expect(handler).not.toHaveBeenCalled();
});

test('a zod schema tells JSON Schema to the gateway and gives its defaults to the handler', async () => {
  const block = await answered({ parameters: city, handler: (args) => args }, { city: 'Oslo' });
  expect(block.output).toEqual({ city: 'Oslo', days: 3 });
  expect(new ToolExecutor([{ name: 'x', parameters: city, handler: () => 1 }]).remote_tools()[0]?.parameters).toEqual({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: {
      city: { type: 'string', minLength: 2, description: 'Name of the city' },
      days: { type: 'number', default: 3 },
    },
    required: ['city'],
  });
});

test('a zod schema of a version with a method of its own works too', () => {
  const { jsonSchema: _, ...standard } = city['~standard'];
  const older = { '~standard': standard, toJSONSchema: (options: object) => ({ type: 'object', ...options }) };
  const executor = new ToolExecutor([{ name: 'x', parameters: older, handler: () => 1 }]);
  expect(executor.remote_tools()[0]?.parameters).toEqual({ type: 'object', io: 'input' });
});

test('a schema that can not say itself needs a function that can, and the error says so', () => {
  const parameters = mini.object({ a: mini.string() });
  const executor = new ToolExecutor([{ name: 'x', description: 'old', handler: () => 1 }]);
  expect(() => executor.registerTool({ name: 'x', parameters, handler: () => 1 })).toThrow(
    /toJSONSchema: z.toJSONSchema/,
  );
  expect(executor.getToolsForNode('tools')[0]?.description).toBe('old');
  const able = new ToolExecutor([{ name: 'x', parameters, handler: () => 1 }], { toJSONSchema: mini.toJSONSchema });
  expect(able.remote_tools()[0]?.parameters).toMatchObject({ properties: { a: { type: 'string' } } });
  able.registerTool({ name: 'x', parameters: mini.object({ a: mini._default(mini.string(), 'b') }), handler: () => 1 });
  expect(able.remote_tools()[0]?.parameters).not.toHaveProperty('required'); // what has a default may be missing
});

test('a schema without a path in its complaint is quoted as it is', async () => {
  const odd = z.object({}).refine(() => false, 'never good');
  expect(await answered({ parameters: odd })).toMatchObject({
    output: { error: 'The arguments are not valid: never good' },
  });
});

test('the arguments of a handler have the type of its schema', () => {
  const client = new HandspanClient({ baseUrl: '' });
  client.registerTool({
    name: 'weather',
    parameters: city,
    handler: (args) => expectTypeOf(args).toEqualTypeOf<{ city: string; days: number }>(),
  });
  client.registerTool({ name: 'any', parameters: { type: 'object' }, handler: (args) => expectTypeOf(args).toBeAny() });
  expect(client.unregisterTool('weather')).toBe(true);
});
