// A site with one page that has the entry `handspan/device`.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PAGE = `
  import { Device, localState } from './src/device/index.ts';
  Object.assign(globalThis, { Device, localState });
`;

export class DeviceSite {
  private constructor(private readonly server: Server) {}

  static async start(): Promise<DeviceSite> {
    const { outputFiles } = await build({
      absWorkingDir: ROOT,
      stdin: { contents: PAGE, resolveDir: ROOT, loader: 'ts' },
      bundle: true,
      format: 'esm',
      platform: 'browser',
      target: 'es2022',
      write: false,
    });
    const script = outputFiles[0]?.text;
    const html = '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>';
    const site = new DeviceSite(
      createServer((request, response) => {
        const path = request.url ?? '/';
        response.setHeader('content-type', path === '/' ? 'text/html' : 'text/javascript');
        response.end(path === '/' ? html : script);
      }),
    );
    site.server.listen(0, '127.0.0.1');
    await once(site.server, 'listening');
    return site;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }
}
