// Makes dist/: one module a file with its types for bundlers, and dist/web/ with one file an entry for pages without one.
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
if (!existsSync(`${root}node_modules/esbuild`)) {
  process.stderr.write('The packages that build the SDK are not installed: run `npm ci` here first.\n');
  process.exit(1);
}
const { build } = await import('esbuild');
const compiler = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));

rmSync(`${root}dist`, { recursive: true, force: true });
execFileSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
await build({
  absWorkingDir: root,
  entryPoints: {
    handspan: 'src/index.ts',
    agentflow: 'src/agentflow/index.ts',
    browser: 'src/browser/index.ts',
    device: 'src/device/index.ts',
    rest: 'src/rest/index.ts',
    webmcp: 'src/webmcp/index.ts',
  },
  outdir: 'dist/web',
  bundle: true,
  format: 'esm',
  platform: 'browser',
  target: 'es2022',
  minify: true,
});
