import type { ArgumentsOf } from './schema.js';

/** What a handler may use while it runs. */
export interface ToolContext {
  /** Aborted when the result is not needed any more: the run was aborted, or the tool has timed out. */
  readonly signal: AbortSignal;
  readonly callId: string;
  readonly node: string;
  readonly name: string;
  /** Tells the page how far it is (`onProgress`). */
  progress(value: unknown): void;
}

/** A function of this page. What it returns goes to the model: any JSON, a Blob, or `{output?, parts: [Blob…]}`. */
// biome-ignore lint/suspicious/noExplicitAny: the seed's public type
export type ToolHandler<Args = any> = (args: Args, context: ToolContext) => any;

/** JSON Schema of an object. */
export interface ToolParameter {
  type: string;
  // biome-ignore lint/suspicious/noExplicitAny: the seed's public type
  properties: Record<string, any>;
  required: string[];
}

/** What a tool does to the world; without any it counts as destructive. ws.md 4.2 */
export interface ToolAnnotations {
  readonly read_only?: boolean;
  readonly destructive?: boolean;
  readonly idempotent?: boolean;
  readonly open_world?: boolean;
  readonly serial?: boolean;
  /** Calls of one group and one reply keep their order around each one that is not read-only. */
  readonly group?: string;
}

/** A tool with its handler. */
export interface ToolRegistration<Parameters extends object = object> {
  /** The node that may call it; `tools` when none is named. */
  readonly node?: string | undefined;
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON Schema, or a schema of zod or any other library that follows Standard Schema. */
  readonly parameters?: Parameters | undefined;
  readonly handler: ToolHandler<ArgumentsOf<Parameters>>;
  readonly permissions?: readonly string[] | undefined;
  /** Seconds that the handler may take. */
  readonly timeout?: number | undefined;
  readonly annotations?: ToolAnnotations | undefined;
}

/** A registration whose node is known. */
export interface ToolDefinition extends ToolRegistration {
  readonly node: string;
}

/** A tool in the form of OpenAI's function calling. */
export interface Tool {
  type: 'function';
  function: { name: string; description: string; parameters: ToolParameter };
}

/** A tool as it is sent to the gateway. graph.md 3.1 */
export interface RemoteTool {
  node_name: string;
  name: string;
  description: string;
  parameters: object;
  permissions?: readonly string[];
  timeout?: number;
  annotations?: ToolAnnotations;
}
