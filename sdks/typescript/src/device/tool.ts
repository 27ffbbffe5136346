import type { ToolContext, ToolRegistration } from '../tools/registration.js';
import { type ArgumentsOf, jsonSchema } from '../tools/schema.js';
import type { Json } from './frames.js';

/** What a handler may know of the call that it runs for. */
export interface CallContext extends ToolContext {
  /** When the call will be given up, in milliseconds since 1970. Progress moves it. */
  readonly deadline: number | undefined;
}

/**
 * A tool of a device, in the form that the client's tools have. The handler gives JSON, a Blob (an image, a sound, a
 * file), or `{output?, parts: [Blob…]}`. A tool without one is offered, and answers "No handler registered".
 */
export interface DeviceTool<Parameters extends object = object>
  extends Omit<ToolRegistration<Parameters>, 'handler' | 'node'> {
  readonly handler?: ((args: ArgumentsOf<Parameters>, context: CallContext) => unknown) | undefined;
  readonly version?: string | undefined;
}

/** A tool, and how the gateway is told of it. */
export interface OfferedTool extends DeviceTool {
  readonly offer: { readonly parameters: object; readonly [field: string]: unknown };
}

/** The tool with its offer (ws.md 4.1); throws when its schema can't be told. */
export function offered(tool: DeviceTool): OfferedTool {
  const { handler: _, description = '', parameters = { type: 'object' }, ...rest } = tool;
  return { ...tool, offer: { ...rest, description, parameters: jsonSchema(parameters) } };
}

/** Milliseconds that a tool may take (ws.md 5.6). */
export function timeOf(tool: DeviceTool): number {
  return (tool.timeout ?? 30) * 1000;
}

/** Whether running it twice is as good as once (ws.md 6.4). */
export function mayRepeat(tool: DeviceTool): boolean {
  return Boolean(tool.annotations?.read_only || tool.annotations?.idempotent);
}

/** A copy of a value as plain JSON; throws what `JSON.stringify` throws. */
export function plain(value: unknown, replace?: (key: string, value: unknown) => unknown): Json {
  return JSON.parse(JSON.stringify(value, replace) ?? 'null') as Json;
}
