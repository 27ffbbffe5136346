import type { ToolAnnotations } from '../tools/registration.js';

/** What a call may use: `signal` is aborted when the call was cancelled. */
export interface CallContext {
  readonly signal?: AbortSignal | undefined;
}

/** A ready-made tool of this room; `HandspanClient.registerTool` and `Device.tool` take it as it is. */
export interface BrowserTool<Name extends string = string> {
  readonly name: Name;
  readonly description: string;
  readonly parameters: ObjectSchema;
  /** Names of the W3C's permissions registry, where it has one. */
  readonly permissions?: string[];
  /** Seconds, the person's own time in front of a prompt included. */
  readonly timeout?: number;
  readonly annotations?: ToolAnnotations;
  // biome-ignore lint/suspicious/noExplicitAny: the gateway and the client have held the arguments to `parameters`
  readonly handler: (args: any, context?: CallContext) => Promise<unknown>;
}

/** The JSON Schema of a tool's arguments. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly properties: Record<string, unknown>;
  readonly required: readonly string[];
  readonly additionalProperties?: boolean;
}

/** A tool that looks and changes nothing. */
export const READ_ONLY: ToolAnnotations = { read_only: true, idempotent: true };

/** Seconds for a call that may have to wait for a person's answer to the browser's prompt. */
export const PERSON_SECONDS = 120;

/** A schema without arguments. */
export const NO_ARGUMENTS: ObjectSchema = { type: 'object', properties: {}, required: [], additionalProperties: false };
