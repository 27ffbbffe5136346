// A TCP proxy in front of a gateway that breaks connections on command.
import { type AddressInfo, createServer, connect as reach, type Server, type Socket } from 'node:net';

export class LinkProxy {
  connections = 0;
  private readonly pairs = new Set<[Socket, Socket]>();
  private isOpen = true;
  private readonly server: Server;

  private constructor(private readonly target: URL) {
    this.server = createServer((client) => this.take(client));
  }

  static async start(target: string): Promise<LinkProxy> {
    const proxy = new LinkProxy(new URL(target));
    await new Promise<void>((resolve) => proxy.server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Resets every connection, and lets nobody through until `heal`. */
  cut(): void {
    this.isOpen = false;
    for (const [client, gateway] of this.pairs) {
      client.resetAndDestroy();
      gateway.resetAndDestroy();
    }
  }

  heal(): void {
    this.isOpen = true;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private take(client: Socket): void {
    client.on('error', () => {});
    if (!this.isOpen) {
      client.resetAndDestroy();
      return;
    }
    this.connections += 1;
    const gateway = reach(Number(this.target.port), this.target.hostname);
    const pair: [Socket, Socket] = [client, gateway];
    this.pairs.add(pair);
    gateway.on('error', () => client.destroy());
    gateway.on('close', () => this.pairs.delete(pair));
    gateway.pipe(client);
    client.once('data', (head) => {
      gateway.write(String(head).replace(/^host: .*$/im, `Host: ${this.target.host}`)); // the gateway knows its own alone
      client.pipe(gateway);
    });
  }
}
