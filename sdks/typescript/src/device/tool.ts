import type { ToolContext, ToolRegistration } from '../tools/registration.js';
import { type ArgumentsOf, jsonSchema } from '../tools/schema.js';
import type { Json } from './frames.js';

/** The call, for the handler that runs it. */
export interface CallContext extends ToolContext {
  /** When the call times out, in milliseconds since 1970. Progress moves it. */
  readonly deadline: number | undefined;
}

/**
 * A tool of a device, in the form of the client's tools. The handler returns JSON, a Blob (an image, a sound, a
 * file), or `{output?, parts: [Blob…]}`. A tool without one is offered, and answers "No handler registered".
 */
export interface DeviceTool<Parameters extends object = object>
  extends Omit<ToolRegistration<Parameters>, 'handler' | 'node'> {
  readonly handler?: ((args: ArgumentsOf<Parameters>, context: CallContext) => unknown) | undefined;
  readonly version?: string | undefined;
}

/** A tool, with its entry of `register_tools`. */
export interface OfferedTool extends DeviceTool {
  readonly offer: { readonly parameters: object; readonly [field: string]: unknown };
}

/** The tool with its offer (ws.md 4.1); throws when its schema has no JSON form. */
export function withOffer(tool: DeviceTool): OfferedTool {
  const { handler: _, description = '', parameters = { type: 'object' }, ...rest } = tool;
  return { ...tool, offer: { ...rest, description, parameters: jsonSchema(parameters) } };
}

/** Milliseconds that a tool may take (ws.md 5.6). */
export function timeOf(tool: DeviceTool): number {
  return (tool.timeout ?? 30) * 1000;
}

/** Whether running it twice has the effect of running it once (ws.md 6.4). */
export function mayRepeat(tool: DeviceTool): boolean {
  return Boolean(tool.annotations?.read_only || tool.annotations?.idempotent);
}

/** A copy of a value as plain JSON; throws what `JSON.stringify` throws. */
export function plain(value: unknown, replace?: (key: string, value: unknown) => unknown): Json {
  return JSON.parse(JSON.stringify(value, replace) ?? 'null') as Json;
}
