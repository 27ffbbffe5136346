import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';

/** What a test's end of a WebSocket can do. */
export interface Peer {
  /** The sub-protocols that the client offered. */
  readonly protocols: string[];
  send(text: string): void;
  /** Breaks the connection, without a goodbye. */
  cut(): void;
}

/** A WebSocket server that says what a test tells it to: for what a gateway would never say. */
export class SocketServer {
  /** Hears every message. */
  hear: (text: string, peer: Peer) => void = () => {};
  connections = 0;
  readonly #http = createServer((_, response) => response.end('{"data": {}}'));
  readonly #sockets = new WebSocketServer({ server: this.#http });

  static async start(): Promise<SocketServer> {
    const made = new SocketServer();
    made.#sockets.on('connection', (socket, { headers }) => {
      made.connections += 1;
      const protocols = headers['sec-websocket-protocol']?.split(/, ?/) ?? [];
      const peer = { protocols, send: (text: string) => socket.send(text), cut: () => socket.terminate() };
      socket.on('message', (text) => made.hear(String(text), peer));
    });
    made.#http.listen(0, '127.0.0.1');
    await once(made.#http, 'listening');
    return made;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }
}
