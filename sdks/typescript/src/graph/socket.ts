import { ConnectionError } from '../errors/connection-error.js';
import type { Connection } from '../http/connection.js';
import { Patience } from '../http/patience.js';
import { isLast } from './chunks.js';

const PATH = '/v1/graph/ws';
const OPEN = 1;

/** The part of a WebSocket that is used here. */
export interface WebSocketLike {
  readonly readyState: number;
  send(text: string): void;
  close(code?: number): void;
  addEventListener(type: string, listener: (event: { data?: unknown; code?: number; reason?: string }) => void): void;
}
export type WebSocketClass = new (url: string, protocols?: string[]) => WebSocketLike;

/** One WebSocket to `/v1/graph/ws`, on which one request after the other is answered. graph.md 7.7 */
export class GraphSocket {
  readonly #socket: WebSocketLike;
  readonly #connection: Connection;
  readonly #opened: Promise<void>;
  #texts: string[] = [];
  /** Wakes the reader that waits for a text. */
  #wake = (): void => {};
  #lost: ConnectionError | undefined;
  /** The last request has had its `done`. Before that the next one would meet its chunks. */
  #isIdle = true;

  constructor(connection: Connection, webSocket: WebSocketClass | undefined) {
    const Socket = webSocket ?? (globalThis.WebSocket as unknown as WebSocketClass | undefined);
    if (Socket === undefined) {
      throw new TypeError(
        'There is no WebSocket here (Node has one from 22 on): give the client one, `webSocket: WebSocket` of the package ws.',
      );
    }
    this.#connection = connection;
    // Pages can't set the headers of a WebSocket, so the token is a sub-protocol. graph.md 7.1
    const { token } = connection;
    try {
      this.#socket = token ? new Socket(this.#url, ['agentflow-bearer', token]) : new Socket(this.#url);
    } catch (cause) {
      throw new ConnectionError(`A WebSocket to ${this.#url} can't be made: ${(cause as Error).message}`, { cause });
    }
    this.#opened = new Promise((resolve, reject) => {
      this.#socket.addEventListener('open', () => resolve());
      this.#socket.addEventListener('close', ({ code, reason }) => {
        this.#lost = new ConnectionError(
          `The connection to ${this.#url} was lost (${code}${reason && `: ${reason}`}).`,
        );
        reject(this.#lost);
        this.#wake();
      });
    });
    this.#opened.catch(() => {}); // the caller that awaits it gets the error
    this.#socket.addEventListener('message', ({ data }) => {
      this.#texts.push(String(data));
      this.#wake();
    });
  }

  /** Whether the next request can go this way. */
  get isOpen(): boolean {
    return this.#isIdle && this.#socket.readyState <= OPEN;
  }

  /** Waits until it is open. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#wait(this.#opened, signal);
  }

  /** Sends a request; yields the texts of its answer, `done` the last one. Leaving early closes the connection. */
  async *exchange(request: string, signal: AbortSignal): AsyncGenerator<string> {
    this.#isIdle = false;
    this.#texts = []; // what came unasked belongs to no answer
    this.#socket.send(request);
    try {
      for (;;) {
        for (const text of this.#texts.splice(0)) {
          this.#isIdle = isDone(text);
          yield text;
          if (this.#isIdle) return;
        }
        await this.#wait(this.#next(), signal);
      }
    } finally {
      if (!this.#isIdle) this.close();
    }
  }

  close(): void {
    this.#socket.close(1000);
  }

  get #url(): string {
    const url = new URL(this.#connection.url(PATH), globalThis.location?.href);
    url.protocol = url.protocol.replace('http', 'ws');
    return url.href;
  }

  /** Resolves when a text has arrived, rejects when none will. */
  #next(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#wake = () => (this.#texts.length > 0 ? resolve() : reject(this.#lost));
      if (this.#texts.length > 0 || this.#lost !== undefined) this.#wake();
    });
  }

  async #wait(promise: Promise<void>, signal: AbortSignal): Promise<void> {
    const patience = new Patience(this.#url, this.#connection.timeout, signal);
    const ended = new Promise<never>((_, reject) => {
      patience.signal.addEventListener('abort', () => reject(patience.signal.reason));
    });
    ended.catch(() => {});
    try {
      patience.signal.throwIfAborted();
      await patience.wait(Promise.race([promise, ended]));
    } finally {
      patience.end();
    }
  }
}

/** Whether this is the last text of an answer. */
function isDone(text: string): boolean {
  if (!text.includes('"done"')) return false;
  try {
    return isLast(JSON.parse(text));
  } catch {
    return false;
  }
}
