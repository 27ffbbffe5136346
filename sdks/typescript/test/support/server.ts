import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request as it arrived. */
export interface Received {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they please
  body: any;
}

type Answer = (response: ServerResponse, received: Received) => unknown;

/** A real HTTP server that answers as a test says, one answer a request; the last one again and again. */
export class TestServer {
  readonly received: Received[] = [];
  /** What `/v1/graph/stop` is answered: clients ask for it behind everybody's back. */
  stopping: Answer = data({});
  #answers: Answer[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      let text = '';
      request.setEncoding('utf8');
      request.on('data', (piece) => {
        text += piece;
      });
      request.on('end', () => this.#answer(request, response, text));
    });
  }

  static async start(): Promise<TestServer> {
    const made = new TestServer();
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What the next requests are answered. */
  answers(...answers: Answer[]): void {
    this.#answers = answers;
    this.stopping = data({});
    this.received.length = 0;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse, text: string): void {
    const isStop = request.url === '/v1/graph/stop';
    const answer = isStop ? this.stopping : this.#answers[0];
    if (!isStop && this.#answers.length > 1) this.#answers.shift();
    const body = text.startsWith('{') ? JSON.parse(text) : text;
    const received = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body };
    this.received.push(received);
    answer?.(response, received);
  }
}

/** An answer with this body. */
export function says(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return (response) => response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
}

/** A success in its envelope. graph.md 1.1 */
export function data(value: unknown): Answer {
  const metadata = { request_id: 'r-1', timestamp: '2026-01-01T00:00:00Z', message: 'OK' };
  return says(200, { data: value, metadata });
}

/** An error in its envelope. graph.md 1.2 */
export function fails(status: number, code: string, message: string, details: unknown[] = []): Answer {
  const metadata = { request_id: 'r-2', timestamp: '2026-01-01T00:00:00Z', message };
  return says(status, { error: { code, message, details }, metadata });
}

/** A stream of these pieces, as they are. */
export function streams(...pieces: (string | Uint8Array)[]): Answer {
  return async (response) => {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    for (const piece of pieces) {
      await new Promise((resolve) => response.write(piece, resolve));
      await new Promise(setImmediate); // so that the next one is a piece of its own
    }
    response.end();
  };
}

/** The connection breaks, before the answer or in the middle of it. */
export function breaks(begun?: string): Answer {
  return (response) => {
    if (begun === undefined) return response.destroy();
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    return response.write(begun, () => response.destroy());
  };
}

/** Never an answer. */
export const silence: Answer = () => {};

/** The data of an answer with words. */
export function said(text: string, thread = 't-1'): object {
  const meta = { is_new_thread: true, thread_id: thread, status: 'completed', open_calls: [] };
  return {
    messages: [message('assistant', [{ type: 'text', text }])],
    state: null,
    context: null,
    summary: null,
    meta,
  };
}

/** The data of an answer with open calls. graph.md 4.5 */
export function asks(...calls: [id: string, name: string, args?: object][]): object {
  const messages = calls.map(([id, name, args = {}]) =>
    message('tool', [{ type: 'remote_tool_call', id, name, args, tool_type: 'remote' }]),
  );
  const meta = { is_new_thread: false, thread_id: 't-1', status: 'interrupted', open_calls: calls.map(([id]) => id) };
  return { messages, state: null, context: null, summary: null, meta };
}

/** A message as the gateway sends it. */
export function message(role: string, content: object[], more: object = {}): object {
  return { message_id: null, role, content, delta: false, tools_calls: null, metadata: {}, timestamp: 1, ...more };
}

/** A chunk of a stream as one line. graph.md 7.2 */
export function chunk(event: string, more: object = {}): string {
  const rest = { message: null, state: null, data: null, thread_id: 't-1', run_id: 'r', metadata: {}, timestamp: 1 };
  return `${JSON.stringify({ event, ...rest, ...more })}\n`;
}

/** The last chunk of a run with words. graph.md 7.6 */
export function lastChunk(text: string): string {
  const meta = { is_new_thread: true, thread_id: 't-1', status: 'completed', open_calls: [] };
  return chunk('message', { message: message('assistant', [{ type: 'text', text }]), metadata: { meta } });
}
