import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const HTML = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>A page of the tests</title>
<link rel="icon" href="data:,">
<script type="module" src="/page.js"></script>
<main><h1>Hello</h1></main>
</html>
`;

/** A web site whose page has the SDK of this checkout, and what `page.ts` adds. */
export class Site {
  readonly port: number;
  readonly url: string;

  private constructor(private readonly server: Server) {
    this.port = (server.address() as AddressInfo).port;
    this.url = `http://127.0.0.1:${this.port}`;
  }

  static async start(): Promise<Site> {
    const files = new Map(Object.entries({ '/': HTML, ...(await bundle()) }));
    const server = createServer((request, response) => {
      const path = new URL(request.url ?? '/', 'http://site').pathname;
      const found = files.get(path);
      response.statusCode = found === undefined ? 404 : 200;
      response.setHeader('content-type', `${path.endsWith('.js') ? 'text/javascript' : 'text/html'}; charset=utf-8`);
      response.setHeader('access-control-allow-origin', '*'); // for modules of other origins' pages
      response.end(found ?? 'not found');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Site(server);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }
}

/** The entries as a page without a bundler gets them, and the script of the tests' own page. */
async function bundle(): Promise<Record<string, string>> {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: {
      handspan: 'src/index.ts',
      agentflow: 'src/agentflow/index.ts',
      browser: 'src/browser/index.ts',
      page: 'test/browser/support/page.ts',
    },
    outdir: 'out',
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    write: false,
  });
  return Object.fromEntries(outputFiles.map(({ path, text }) => [`/${path.split('/').at(-1)}`, text]));
}
