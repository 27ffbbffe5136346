import { AnswerError } from '../errors/answer-error.js';
import { refusal } from '../errors/refusal.js';
import { readLines } from './lines.js';
import type { Call, ConnectionOptions, Envelope } from './options.js';
import { Patience } from './patience.js';

/** The way to one gateway: addresses, headers, time limits, and failures as errors of ours. */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly token: string;
  readonly timeout: number;

  constructor(options: ConnectionOptions) {
    if (!/^(https?:\/\/|\.{0,2}\/|$)/i.test(options.baseUrl)) {
      throw new TypeError(`'${options.baseUrl}' is no gateway's address: write it like 'http://127.0.0.1:42617'.`);
    }
    this.#options = options;
    this.token = (options.token ?? options.authToken ?? '').trim(); // of a file it may have a line's end
    this.timeout = options.timeout ?? 300_000;
  }

  /** Where the gateway has this path. */
  url(path: string, query: object = {}): string {
    const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const tail = new URLSearchParams(words.map(([name, value]) => [name, String(value)])).toString();
    return this.#options.baseUrl.replace(/\/+$/, '') + path + (tail && `?${tail}`);
  }

  /** What the gateway answers; throws when that is an error, or none of its answers. */
  async json<Data>(path: string, call: Call = {}): Promise<Envelope<Data>> {
    const text = await this.whole(path, call, (response) => response.text());
    try {
      const answer = JSON.parse(text);
      if (typeof answer === 'object' && answer !== null && 'data' in answer) return answer;
    } catch {
      // told below
    }
    throw new AnswerError(`The answer of ${this.url(path)} is none of a Handspan gateway: '${text.slice(0, 200)}'`);
  }

  /** A good answer as `read` reads it. */
  async whole<Read>(path: string, call: Call, read: (response: Response) => Promise<Read>): Promise<Read> {
    const patience = this.#patience(path, call);
    try {
      return await patience.wait(this.#answer(path, call, patience.signal).then(read));
    } finally {
      patience.end();
    }
  }

  /** The lines of a good answer, once it begins. */
  async lines(path: string, call: Call): Promise<AsyncGenerator<string>> {
    const patience = this.#patience(path, call);
    try {
      return readLines(await patience.wait(this.#answer(path, call, patience.signal)), patience);
    } catch (error) {
      patience.end();
      throw error;
    }
  }

  /** Logs a request for debugging. */
  debug(text: string): void {
    const { debug } = this.#options;
    // biome-ignore lint/suspicious/noConsole: only when it was asked for
    if (debug) (debug === true ? console.debug : debug)(`handspan: ${text}`);
  }

  #patience(path: string, call: Call): Patience {
    return new Patience(this.url(path), this.timeout, call.signal);
  }

  async #answer(path: string, call: Call, signal: AbortSignal): Promise<Response> {
    const { fetch = globalThis.fetch } = this.#options;
    const request = this.#request(call, signal);
    const began = Date.now();
    const response = await fetch(this.url(path, call.query), request);
    this.debug(`${request.method} ${path} ${response.status} ${Date.now() - began} ms`);
    if (response.ok) return response;
    throw refusal(this.url(path), response.status, response.headers, await response.text());
  }

  #request({ body, method, headers }: Call, signal: AbortSignal): RequestInit {
    const { credentials, headers: always } = this.#options;
    const isJson = body !== undefined && !(body instanceof FormData || body instanceof Blob);
    return {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      signal,
      headers: {
        ...(this.token && { Authorization: `Bearer ${this.token}` }),
        ...(isJson && { 'Content-Type': 'application/json' }),
        ...always,
        ...headers,
      },
      ...(body !== undefined && { body: isJson ? JSON.stringify(body) : (body as BodyInit) }),
      ...(credentials && { credentials }),
    };
  }
}
