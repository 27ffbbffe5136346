import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { type BuildOptions, build } from 'esbuild';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const MOST_BYTES = 12 * 1024;

/** An entry as one file for browsers. */
async function bundle(options: BuildOptions): Promise<string> {
  const made = await build({
    absWorkingDir: ROOT,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    write: false,
    logLevel: 'silent',
    ...options,
  });
  return made.outputFiles?.[0]?.text ?? '';
}

const size = (text: string) => gzipSync(text, { level: 9 }).length;

test('a bundle with something of Node does not pass', async () => {
  const contents = "import { readFileSync } from 'node:fs'; export { readFileSync };";
  await expect(bundle({ stdin: { contents, resolveDir: ROOT } })).rejects.toThrow('node:fs');
});

test.each(['src/index.ts', 'src/device/index.ts'])('%s is small', async (entry) => {
  expect(size(await bundle({ entryPoints: [entry] }))).toBeLessThan(MOST_BYTES);
});

test('who uses only a part ships only that', async () => {
  const contents = "export { ToolExecutor } from './src/index.ts'";
  const part = await bundle({ stdin: { contents, resolveDir: ROOT, loader: 'ts' } });
  expect(size(part)).toBeLessThan(MOST_BYTES / 4);
});

test.each(['src/index.ts', 'src/browser/index.ts', 'src/device/index.ts'])(
  '%s names nothing that only Node has',
  async (entry) => {
    const text = await bundle({ entryPoints: [entry], minify: false });
    expect(text).not.toMatch(/\b(?:process|Buffer|require|__dirname|setImmediate)\b\s*[.(]/);
    expect(text).not.toMatch(/from\s*["'][^."']/);
  },
);

test('the root entry loads and works where there is nothing of Node', async () => {
  const text = await bundle({ entryPoints: ['src/index.ts'], format: 'iife', globalName: 'handspan' });
  const given = {
    AbortController,
    AbortSignal,
    Blob,
    File,
    FormData,
    Headers,
    Response,
    TextDecoder,
    TextEncoder,
    URL,
  };
  const more = { URLSearchParams, DOMException, btoa, clearTimeout, crypto, setTimeout };
  const page = createContext({
    ...given,
    ...more,
    fetch: async () => new Response(JSON.stringify({ data: { messages: [], meta: { thread_id: 't' } } })),
  });
  runInContext(text, page);
  const names = runInContext('Object.keys(handspan)', page);
  expect([...names]).toEqual(expect.arrayContaining(['HandspanClient', 'ToolExecutor', 'Message', 'StreamEventType']));
  const result = await runInContext("new handspan.HandspanClient({ baseUrl: '' }).invoke('hello')", page);
  expect(result.meta.thread_id).toBe('t');
});

test('there is no dependency at run time, and every entry has its types', () => {
  const made = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'));
  expect(made.dependencies).toBeUndefined();
  expect(made.peerDependencies).toBeUndefined();
  expect(Object.keys(made.exports)).toEqual(['.', './agentflow', './browser', './device', './rest', './webmcp']);
  for (const entry of Object.values<Record<string, string>>(made.exports)) expect(entry.types).toMatch(/\.d\.ts$/);
});
