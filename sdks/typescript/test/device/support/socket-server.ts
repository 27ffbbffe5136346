// The gateway's half of a link, played by the test: a real WebSocket server.
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import type { JsonObject } from '../../../src/device/frames.js';
import { bounded, Queue } from './bounded.js';

/** One link that a device opened. */
export class ServerLink {
  readonly frames = new Queue<JsonObject>();
  readonly closed: Promise<number>;

  constructor(
    private readonly socket: WebSocket,
    readonly request: IncomingMessage,
  ) {
    socket.on('message', (data) => this.frames.put(JSON.parse(String(data))));
    this.closed = new Promise((resolve) => socket.on('close', resolve));
    socket.on('error', () => {});
  }

  send(frame: JsonObject): void {
    this.socket.send(JSON.stringify(frame));
  }

  /** Sends what is no frame, or anything else. */
  sendRaw(data: string | Uint8Array): void {
    this.socket.send(data);
  }

  /** Cuts it, without a word. */
  cut(): void {
    this.socket.terminate();
  }

  close(code: number, reason = ''): void {
    this.socket.close(code, reason);
  }

  /** Reads nothing more, so that nothing is answered: the link looks quiet from the other end. */
  freeze(): void {
    this.socket.pause();
  }

  /** Everything that was sent before this has arrived at the device, and was handled there. */
  async settled(): Promise<void> {
    const heard = new Promise((resolve) => this.socket.once('pong', resolve));
    this.socket.ping();
    await bounded(heard, 'a pong');
  }

  /** Takes `connect` and `register_tools`, and answers with all that the device can do, or what is given. */
  async greet(given: JsonObject = {}): Promise<JsonObject> {
    const hello = await this.frames.next('connect');
    const usual = { v: 1, message: 'Connection established', resume_token: 't1', grace_ms: 60000, resumed: false };
    this.send({ type: 'connected', capabilities: hello.capabilities as string[], ...usual, ...given });
    return hello;
  }
}

/** A server that lets everybody in. */
export class SocketServer {
  readonly links = new Queue<ServerLink>();
  private readonly server = new WebSocketServer({
    host: '127.0.0.1',
    port: 0,
    handleProtocols: (offered) => (offered.has('handspan.v1') ? 'handspan.v1' : false),
  });

  static async start(): Promise<SocketServer> {
    const started = new SocketServer();
    await bounded(new Promise((resolve) => started.server.on('listening', resolve)), 'listening');
    started.server.on('connection', (socket, request) => started.links.put(new ServerLink(socket, request)));
    return started;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/prefix`;
  }

  link(): Promise<ServerLink> {
    return this.links.next('a link');
  }

  async close(): Promise<void> {
    for (const client of this.server.clients) client.terminate();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
