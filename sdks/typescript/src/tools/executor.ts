import { type ContentBlock, RemoteToolCallBlock } from '../messages/blocks.js';
import { Message } from '../messages/message.js';
import { type CallRules, milliseconds, runCall } from './call.js';
import type { RemoteTool, Tool, ToolDefinition, ToolParameter, ToolRegistration } from './registration.js';
import { jsonSchema, type ToJsonSchema } from './schema.js';

const NODE = 'tools';
/** Below what the gateway waits by itself. graph.md 5.5 */
const TOOL_TIMEOUT = 300_000;
/** Seconds for the way of the results to the gateway. */
const MARGIN = 30;

/** How an executor works, beside the rules for calls. */
export interface ExecutorOptions extends Partial<CallRules> {
  readonly toJSONSchema?: ToJsonSchema | undefined;
}

/** The tools of a client, and the running of calls. */
export class ToolExecutor {
  readonly #tools: ToolDefinition[] = [];
  readonly #schemas = new Map<ToolDefinition, object>();
  readonly #rules: CallRules;
  readonly #convert: ToJsonSchema | undefined;

  constructor(tools: readonly ToolRegistration[] = [], options: ExecutorOptions = {}) {
    this.#rules = { ...options, toolTimeout: options.toolTimeout ?? TOOL_TIMEOUT, parallel: options.parallel ?? true };
    this.#convert = options.toJSONSchema;
    for (const tool of tools) this.registerTool(tool);
  }

  /** Adds a tool, in place of the one of that name on the same node. */
  registerTool<Parameters extends object>(registration: ToolRegistration<Parameters>): void {
    const tool = { ...registration, node: registration.node ?? NODE } as unknown as ToolDefinition;
    if (typeof tool.handler !== 'function' || !tool.name) {
      throw new TypeError(`Tool '${tool.name}' needs a name and a handler.`);
    }
    const schema = jsonSchema(tool.parameters ?? {}, this.#convert); // first: one that can't be used changes nothing
    this.unregisterTool(tool.name, tool.node);
    this.#tools.push(tool);
    this.#schemas.set(tool, schema);
  }

  /** Removes a tool from one node, or from all; whether there was one. */
  unregisterTool(name: string, node?: string): boolean {
    const gone = this.#tools.filter((tool) => tool.name === name && (node === undefined || tool.node === node));
    for (const tool of gone) {
      this.#tools.splice(this.#tools.indexOf(tool), 1);
      this.#schemas.delete(tool);
    }
    return gone.length > 0;
  }

  getToolsForNode(node: string): ToolDefinition[] {
    return this.#tools.filter((tool) => tool.node === node);
  }

  /** The tools in OpenAI's form: of two with one name the one that was registered last. */
  allTools(): Tool[] {
    const byName = new Map(this.#tools.map((tool) => [tool.name, tool]));
    return [...byName.values()].map((tool) => ({
      type: 'function',
      function: {
        name: tool.name,
        description: tool.description ?? '',
        parameters: { type: 'object', properties: {}, required: [], ...this.#schemas.get(tool) } as ToolParameter,
      },
    }));
  }

  /** The tools as they are sent to the gateway. */
  remoteTools(): RemoteTool[] {
    return this.#tools.map((tool) => ({
      node_name: tool.node,
      name: tool.name,
      description: tool.description ?? '',
      parameters: this.#schemas.get(tool) ?? {},
      timeout: this.#expiry(),
      ...(tool.permissions && { permissions: tool.permissions }),
      ...(tool.annotations && { annotations: tool.annotations }),
    }));
  }

  /** The same in AgentFlow's spelling: until 1.0. */
  all_tools(): Tool[] {
    return this.allTools();
  }

  /** The same in AgentFlow's spelling: until 1.0. */
  remote_tools(): RemoteTool[] {
    return this.remoteTools();
  }

  /**
   * Runs the calls in these messages that wait for this client, each id once; one `tool` message a call, in their order.
   * Handlers that throw, or take too long, give a result too.
   */
  async executeToolCalls(messages: readonly Message[], signal?: AbortSignal): Promise<Message[]> {
    const ending = new AbortController();
    const stop = (): void => ending.abort(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop);
    try {
      return await this.#runAll(openCalls(messages), ending.signal);
    } finally {
      signal?.removeEventListener('abort', stop);
      ending.abort(); // of several at once, one can only end the others when a callback of the page threw
    }
  }

  async #runAll(calls: RemoteToolCallBlock[], signal: AbortSignal): Promise<Message[]> {
    const run = async (call: RemoteToolCallBlock) =>
      Message.toolMessage([await runCall(call, this.#find(call.name), this.#rules, signal)]);
    if (this.#rules.parallel) return Promise.all(calls.map(run));
    const answers: Message[] = [];
    for (const call of calls) answers.push(await run(call));
    return answers;
  }

  #find(name: string): ToolDefinition | undefined {
    return this.#tools.filter((tool) => tool.name === name).at(-1);
  }

  /**
   * Seconds after which the gateway gives up a call: those of the slowest tool, for all. The results of a round go out
   * together, so a quick one may have to wait for a slow one beside it.
   */
  #expiry(): number {
    const slowest = Math.max(...this.#tools.map((tool) => milliseconds(tool, this.#rules)));
    return Math.ceil(slowest / 1000) + MARGIN;
  }
}

/** The calls in these messages that wait for this client, each id once. */
export function openCalls(messages: readonly Message[]): RemoteToolCallBlock[] {
  const blocks: ContentBlock[] = messages.flatMap((message) => message.content);
  const calls = new Map<string, RemoteToolCallBlock>();
  for (const block of blocks) {
    if (block.type === 'remote_tool_call' && !calls.has(block.id)) {
      calls.set(block.id, new RemoteToolCallBlock(block.id, block.name, block.args));
    }
  }
  return [...calls.values()];
}
