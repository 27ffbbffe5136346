import { ConnectionError } from '../errors/connection-error.js';
import { GraphError } from '../errors/graph-error.js';
import { type Messages, messageList } from '../messages/message.js';
import { readChunks } from './chunks.js';
import { streamExchange } from './http.js';
import { type RunParts, run } from './run.js';
import { GraphSocket, type WebSocketClass } from './socket.js';
import type { Answer, RunOptions, RunRequest, RunResult, StreamChunk } from './types.js';

/** Characters from which on a request is too much for the WebSocket. */
const LARGE = 256 * 1024;

/**
 * A conversation over one WebSocket, in one thread; it connects with the first message, and again when it has to.
 * Where no WebSocket gets through, it goes by HTTP.
 */
export class Chat {
  #socket: GraphSocket | undefined;
  #thread: string | undefined;
  #isBusy = false;
  #isClosed = false;

  constructor(
    private readonly parts: RunParts,
    private readonly webSocket: WebSocketClass | undefined,
    private readonly options: RunOptions,
  ) {
    this.#thread = options.config?.thread_id;
  }

  /** The thread, once it is known. */
  get threadId(): string | undefined {
    return this.#thread;
  }

  /** Sends a message; yields the chunks of the run, and returns the whole run. One run at a time. */
  async *send(said: Messages, options: RunOptions = {}): AsyncGenerator<StreamChunk, RunResult> {
    this.#needOpen();
    if (this.#isBusy) throw new GraphError('A run is at work in this chat: wait for its end.', { code: 'GRAPH_BUSY' });
    this.#isBusy = true;
    const all = { ...this.options, ...options };
    const thread_id = options.config?.thread_id ?? this.#thread;
    const config = { ...this.options.config, ...options.config, ...(thread_id && { thread_id }) };
    try {
      const exchange = (request: RunRequest, signal: AbortSignal) => this.#exchange(request, signal);
      return yield* run(this.parts, exchange, { messages: messageList(said) }, { ...all, config });
    } finally {
      this.#isBusy = false;
    }
  }

  /** Closes the connection; a run in the gateway goes on there. */
  close(): void {
    this.#isClosed = true;
    this.#socket?.close();
  }

  async *#exchange(request: RunRequest, signal: AbortSignal): AsyncGenerator<StreamChunk, Answer> {
    this.#needOpen(); // while handlers ran, it may have been closed
    this.#thread = request.config.thread_id;
    const { resumes, messages, ...rest } = request;
    const said = messages.map(({ role, content }) => ({ role, content }));
    const what = resumes ? { invoke_type: 'resume', tool_result: said } : { invoke_type: 'fresh', messages: said };
    const text = JSON.stringify({ ...what, ...rest });
    // The gateway takes more in a request than in one message of a WebSocket, and a run goes on by either. graph.md 5.1
    const socket = text.length > LARGE ? undefined : await this.#open(signal);
    if (socket === undefined) return yield* streamExchange(this.parts.connection)(request, signal);
    return yield* readChunks(socket.exchange(text, signal), request);
  }

  /** An open socket; none where the gateway or a proxy takes none. The request over HTTP then says why. */
  async #open(signal: AbortSignal): Promise<GraphSocket | undefined> {
    try {
      if (!this.#socket?.isOpen) this.#socket = new GraphSocket(this.parts.connection, this.webSocket);
      await this.#socket.ready(signal);
      return this.#socket;
    } catch (error) {
      this.#socket?.close();
      if (this.#isClosed || !(error instanceof ConnectionError)) throw error;
      this.parts.connection.debug(error.message);
      return undefined;
    }
  }

  #needOpen(): void {
    if (this.#isClosed) throw new ConnectionError('This chat was closed: begin another one with client.chat().');
  }
}
