import * as files from './api/files.js';
import * as graphs from './api/graph.js';
import * as memories from './api/memories.js';
import * as threads from './api/threads.js';
import { Chat } from './graph/chat.js';
import { invokeExchange, streamExchange } from './graph/http.js';
import { type RunParts, run } from './graph/run.js';
import type { WebSocketClass } from './graph/socket.js';
import type { Exchange, RunOptions, RunResult, StreamChunk } from './graph/types.js';
import { Connection } from './http/connection.js';
import type { ConnectionOptions } from './http/options.js';
import { RemoteToolCallBlock } from './messages/blocks.js';
import { Message, type Messages, messageList } from './messages/message.js';
import { type ExecutorOptions, ToolExecutor } from './tools/executor.js';
import type { ToolRegistration } from './tools/registration.js';

/** How the gateway is reached, and how this client's tools are run. */
export interface ClientOptions extends ConnectionOptions, ExecutorOptions {
  /** In place of the global one, which Node has from version 22 on; for `chat`. */
  readonly webSocket?: WebSocketClass | undefined;
}

/**
 * A client of the graph API whose functions are tools of the agent.
 *
 * Its tools go with every request, so two pages with one token stay apart, and nothing has to be set up.
 */
export class HandspanClient {
  readonly #connection: Connection;
  readonly #executor: ToolExecutor;
  readonly #webSocket: WebSocketClass | undefined;

  constructor(options: ClientOptions) {
    this.#connection = new Connection(options);
    const upload = async (blob: Blob) => (await this.uploadFile(blob)).data.file_id;
    this.#executor = new ToolExecutor([], { upload, ...options });
    this.#webSocket = options.webSocket;
  }

  // Tools.

  /** Makes a function a tool of the agent, from the next request on; the one of that name on the same node is replaced. */
  registerTool<Parameters extends object>(registration: ToolRegistration<Parameters>): void {
    this.#executor.registerTool(registration);
  }

  /** Takes a tool back, from one node or from all; whether there was one. */
  unregisterTool(name: string, node?: string): boolean {
    return this.#executor.unregisterTool(name, node);
  }

  /** Stores the tools in the gateway for other clients with this token. This client's own runs do not need it. */
  setup() {
    return graphs.setup(this.#connection, this.#executor.remoteTools());
  }

  // Runs.

  /** Sends a message to the agent and runs the tools that it calls; resolves to the whole run. */
  async invoke(messages: Messages, options: RunOptions = {}): Promise<RunResult> {
    return whole(run(this.#parts(), this.#exchange(options), { messages: messageList(messages) }, options));
  }

  /** The same; yields the chunks as they arrive, and returns the whole run. */
  stream(messages: Messages, options: RunOptions = {}): AsyncGenerator<StreamChunk, RunResult> {
    return run(this.#parts(), streamExchange(this.#connection), { messages: messageList(messages) }, options);
  }

  /** The same over a WebSocket that stays open between messages. `options` hold for all of them. */
  chat(options: RunOptions = {}): Chat {
    return new Chat(this.#parts(), this.#webSocket, options);
  }

  /**
   * Continues a run that waits for calls of this client, as after a reload of the page: runs them, and the rest.
   * Undefined when none are open.
   */
  async resume(threadId: string, options: RunOptions = {}): Promise<RunResult | undefined> {
    const { state } = (await this.threadState(threadId)).data;
    const open = state.execution_meta?.interrupt_data?.open_calls ?? [];
    if (open.length === 0) return undefined;
    const calls = [Message.toolMessage(open.map(({ id, name, args }) => new RemoteToolCallBlock(id, name, args)))];
    const config = { ...options.config, thread_id: threadId };
    return whole(run(this.#parts(), this.#exchange(options), { calls }, { ...options, config }));
  }

  // The rest of the API: each gives the envelope of its answer.

  readonly ping = this.#with(graphs.ping);
  readonly graph = this.#with(graphs.graph);
  readonly graphStateSchema = this.#with(graphs.graphStateSchema);
  readonly graphTools = this.#with(graphs.graphTools);
  readonly stopGraph = this.#with(graphs.stopGraph);
  readonly fixGraph = this.#with(graphs.fixGraph);
  readonly answerQuestion = this.#with(graphs.answerQuestion);

  readonly threads = this.#with(threads.threads);
  readonly threadDetails = this.#with(threads.threadDetails);
  readonly deleteThread = this.#with(threads.deleteThread);
  readonly threadState = this.#with(threads.threadState);
  readonly updateThreadState = this.#with(threads.updateThreadState);
  readonly clearThreadState = this.#with(threads.clearThreadState);
  readonly threadMessages = this.#with(threads.threadMessages);
  readonly addThreadMessages = this.#with(threads.addThreadMessages);
  readonly singleMessage = this.#with(threads.singleMessage);
  readonly deleteMessage = this.#with(threads.deleteMessage);

  readonly storeMemory = this.#with(memories.storeMemory);
  readonly searchMemory = this.#with(memories.searchMemory);
  readonly getMemory = this.#with(memories.getMemory);
  readonly updateMemory = this.#with(memories.updateMemory);
  readonly deleteMemory = this.#with(memories.deleteMemory);
  readonly listMemories = this.#with(memories.listMemories);
  readonly forgetMemories = this.#with(memories.forgetMemories);

  readonly uploadFile = this.#with(files.uploadFile);
  /** The file itself. */
  readonly getFile = this.#with(files.getFile);
  readonly getFileInfo = this.#with(files.getFileInfo);
  readonly getFileAccessUrl = this.#with(files.getFileAccessUrl);
  readonly getMultimodalConfig = this.#with(files.getMultimodalConfig);

  /** The same function over this client's connection. */
  #with<Rest extends unknown[], Given>(ask: (from: Connection, ...rest: Rest) => Given): (...rest: Rest) => Given {
    return (...rest) => ask(this.#connection, ...rest);
  }

  /** One answer to each request; with `onQuestion` a stream, which brings questions in time. */
  #exchange({ onQuestion }: RunOptions): Exchange {
    return (onQuestion ? streamExchange : invokeExchange)(this.#connection);
  }

  #parts(): RunParts {
    return {
      answer: (answer) => this.answerQuestion(answer),
      executor: this.#executor,
      connection: this.#connection,
      stop: (threadId: string) => this.stopGraph(threadId),
    };
  }
}

async function whole(running: AsyncGenerator<StreamChunk, RunResult>): Promise<RunResult> {
  for (;;) {
    const next = await running.next();
    if (next.done) return next.value;
  }
}
