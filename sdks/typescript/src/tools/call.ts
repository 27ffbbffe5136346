import { type RemoteToolCallBlock, ToolResultBlock } from '../messages/blocks.js';
import type { Upload } from '../messages/part.js';
import { LONGEST } from '../time.js';
import type { ToolDefinition } from './registration.js';
import { completedResult, failedResult } from './result.js';
import { runHandler } from './runner.js';

/** What a page gets about a call of one of its tools. */
export interface ToolCallEvent {
  readonly callId: string;
  readonly node: string;
  readonly name: string;
  readonly args: Record<string, unknown>;
  readonly status: 'started' | 'completed' | 'failed';
  /** What goes to the gateway; undefined while it runs, and when the run was ended: then nothing goes there. */
  readonly output?: unknown;
}

/** What a page gets while a handler runs. */
export interface ProgressEvent {
  readonly callId: string;
  readonly node: string;
  readonly name: string;
  readonly value: unknown;
}

/** How calls are run. */
export interface CallRules {
  /** Milliseconds that a handler may take whose tool names no time of its own. */
  readonly toolTimeout: number;
  /** False: one after the other. */
  readonly parallel: boolean;
  /** Uploads large Blobs; without it they are in the result itself. */
  readonly upload?: Upload | undefined;
  readonly onToolCall?: ((event: ToolCallEvent) => void) | undefined;
  readonly onProgress?: ((event: ProgressEvent) => void) | undefined;
}

/** Milliseconds that this tool's handler may take. */
export function milliseconds(tool: { readonly timeout?: number | undefined }, rules: CallRules): number {
  return Math.min(tool.timeout === undefined ? rules.toolTimeout : tool.timeout * 1000, LONGEST);
}

/** Runs one call; its result, always. Rejects only when `signal` is aborted, and then without waiting for the handler. */
export async function runCall(
  call: RemoteToolCallBlock,
  tool: ToolDefinition | undefined,
  rules: CallRules,
  signal: AbortSignal,
): Promise<ToolResultBlock> {
  const about = { callId: call.id, node: tool?.node ?? '', name: call.name };
  rules.onToolCall?.({ ...about, args: call.args, status: 'started' });
  let block: ToolResultBlock | undefined;
  try {
    block = tool === undefined ? notFound(call) : await answerCall(call, tool, rules, signal);
    return block;
  } finally {
    const status = !block || block.is_error ? 'failed' : 'completed';
    rules.onToolCall?.({ ...about, args: call.args, status, ...(block && { output: block.output }) });
  }
}

async function answerCall(
  call: RemoteToolCallBlock,
  tool: ToolDefinition,
  rules: CallRules,
  stopped: AbortSignal,
): Promise<ToolResultBlock> {
  const about = { callId: call.id, node: tool.node, name: tool.name };
  const { result, error } = await runHandler({
    tool,
    args: call.args,
    context: (signal) => ({
      ...about,
      signal,
      progress: (value: unknown) => rules.onProgress?.({ ...about, value }),
    }),
    encode: (value) => completedResult(call.id, value, rules.upload),
    signal: stopped,
    timeout: milliseconds(tool, rules),
  });
  stopped.throwIfAborted();
  return result ?? failedResult(call.id, error);
}

function notFound(call: RemoteToolCallBlock): ToolResultBlock {
  return new ToolResultBlock(call.id, { error: `Tool '${call.name}' not found`, code: 'tool_not_found' }, true);
}
