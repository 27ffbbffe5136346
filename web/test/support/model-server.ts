import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A request of the gateway to its model, as the Chat Completions API has it. */
export interface ModelRequest {
  messages: { role: string; content: unknown }[];
}

/** One reply of the model: it arrives as the test says, piece by piece. */
export class Reply {
  #written = 0;

  constructor(
    readonly request: ModelRequest,
    private readonly response: ServerResponse,
  ) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
  }

  text(content: string): void {
    this.#send({ content }, null);
  }

  /** Calls tools, side by side, and ends. */
  call(...calls: [name: string, args: object][]): void {
    const tool_calls = calls.map(([name, args], index) => {
      const called = { name, arguments: JSON.stringify(args) };
      return { index, id: crypto.randomUUID(), type: 'function', function: called };
    });
    this.#send({ tool_calls }, null);
    this.end('tool_calls');
  }

  /** Begins a call, or goes on with the arguments of the last one that was begun. */
  write(piece: { name: string } | { arguments: string }): void {
    if ('name' in piece) this.#written += 1;
    const called = { name: '', arguments: '', ...piece };
    const begun = 'name' in piece ? { id: crypto.randomUUID(), type: 'function' } : {};
    this.#send({ tool_calls: [{ index: this.#written - 1, ...begun, function: called }] }, null);
  }

  /** Ends; `tokens` are those that it reports as used. */
  end(reason = 'stop', tokens?: { input: number; output: number }): void {
    this.#send({}, reason);
    if (tokens) {
      const usage = { prompt_tokens: tokens.input, completion_tokens: tokens.output };
      this.response.write(`data: ${JSON.stringify({ id: '1', choices: [], usage })}\n\n`);
    }
    this.response.end('data: [DONE]\n\n');
  }

  /** Closes the connection in the middle. */
  breakOff(): void {
    this.response.destroy();
  }

  #send(delta: object, finish_reason: string | null): void {
    const chunk = { id: '1', choices: [{ index: 0, delta, finish_reason }] };
    this.response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  }
}

/**
 * A model of the Chat Completions API whose replies a test writes itself:
 *
 *     const model = await ModelServer.start();
 *     const reply = await model.next(); // the gateway has asked
 *     reply.text('Half ');
 */
export class ModelServer {
  url = '';
  /** Whether it refuses the key of every request. */
  refuses = false;
  readonly #waiting: Reply[] = [];
  #wake: () => void = () => {};

  static async start(): Promise<ModelServer> {
    const model = new ModelServer();
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (part) => {
        body += part;
      });
      request.on('end', () => {
        if (model.refuses) response.writeHead(401).end('{"error": {"message": "That key is wrong."}}');
        else model.#add(new Reply(JSON.parse(body) as ModelRequest, response));
      });
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    model.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    return model;
  }

  /** The next request that waits for its reply. */
  async next(): Promise<Reply> {
    while (this.#waiting.length === 0) {
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    return this.#waiting.shift() as Reply;
  }

  #add(reply: Reply): void {
    this.#waiting.push(reply);
    this.#wake();
  }
}
