// What the package gives, by name and by type: all that the seed names, and nothing as a default.
import { expect, expectTypeOf, test } from 'vitest';
import * as agentflow from '../src/agentflow/index.js';
import * as browser from '../src/browser/index.js';
import * as device from '../src/device/index.js';
import type { ToolDefinition, ToolHandler, ToolParameter, ToolRegistration } from '../src/index.js';
import * as root from '../src/index.js';

const BLOCKS = [
  'AnnotationBlock',
  'AudioBlock',
  'DataBlock',
  'DocumentBlock',
  'ErrorBlock',
  'ImageBlock',
  'ReasoningBlock',
  'RemoteToolCallBlock',
  'TextBlock',
  'ToolCallBlock',
  'ToolResultBlock',
  'VideoBlock',
];

test('every entry has names, and none has a default', () => {
  for (const entry of [root, browser, device]) expect(Object.keys(entry)).not.toContain('default');
  const wanted = ['HandspanClient', 'Message', 'StreamEventType', 'ToolExecutor', ...BLOCKS];
  expect(Object.keys(root)).toEqual(expect.arrayContaining(wanted));
  expect(Object.keys(device)).toContain('Device');
});

test('handspan/agentflow has every name that the seed imports, and the root has its own spellings beside the old ones', () => {
  expect(Object.keys(agentflow)).toEqual(
    expect.arrayContaining(['AgentFlowClient', 'Message', 'StreamEventType', 'ToolExecutor', ...BLOCKS]),
  );
  expect(root.Message.textMessage('hi')).toEqual(root.Message.text_message('hi'));
  const executor = new root.ToolExecutor([]);
  expect(executor.allTools()).toEqual(executor.all_tools());
  expectTypeOf<agentflow.ToolRegistration>().toEqualTypeOf<ToolRegistration>();
  expectTypeOf<agentflow.ToolDefinition>().toEqualTypeOf<ToolDefinition>();
  expectTypeOf<agentflow.ToolParameter>().toEqualTypeOf<ToolParameter>();
  expectTypeOf<agentflow.Tool>().toEqualTypeOf<root.Tool>();
});

test('the events of a stream are those of the seed', () => {
  expect(root.StreamEventType).toEqual({ MESSAGE: 'message', UPDATES: 'updates', STATE: 'state', ERROR: 'error' });
});

test('every error is a HandspanError that says its name and a status', () => {
  const errors = Object.entries(root).filter(([name]) => name.endsWith('Error'));
  expect(errors.length).toBeGreaterThan(9);
  for (const [name, Kind] of errors as [string, new (message: string, ...more: unknown[]) => Error][]) {
    const error = name === 'HandspanError' ? new Kind('why') : Object.create(Kind.prototype);
    expect(error, name).toBeInstanceOf(root.HandspanError);
  }
  expect(new root.HandspanError('why', { status: 418 })).toMatchObject({ name: 'HandspanError', status: 418 });
});

test('a tool of the seed has the types of the seed', async () => {
  const parameters: ToolParameter = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const handler: ToolHandler = async ({ city }) => ({ temperature: city.length });
  const registration: ToolRegistration = { node: 'tools', name: 'get_weather', parameters, handler };
  const tools: ToolDefinition[] = [{ ...registration, node: 'tools' }];
  const executor = new root.ToolExecutor(tools);
  expectTypeOf(executor.all_tools()).toEqualTypeOf<root.Tool[]>();
  expectTypeOf(executor.getToolsForNode('tools')).toEqualTypeOf<ToolDefinition[]>();
  const asked = root.Message.tool_message([new root.RemoteToolCallBlock('c-1', 'get_weather', { city: 'Oslo' })]);
  const answers = await executor.executeToolCalls([asked]);
  expectTypeOf(answers).toEqualTypeOf<root.Message[]>();
  expect(answers[0]?.content[0]).toMatchObject({ call_id: 'c-1', output: { temperature: 4 }, status: 'completed' });
});
