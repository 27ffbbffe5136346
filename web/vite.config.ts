import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const sdk = fileURLToPath(new URL('../sdks/typescript/src/', import.meta.url));

/** A file name that the gateway serves: lower case, digits and `_`. */
function plainName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, '_');
}

export default defineConfig({
  base: './',
  resolve: {
    alias: [
      { find: /^handspan\/(rest|device|browser)$/, replacement: `${sdk}$1/index.ts` },
      { find: /^handspan$/, replacement: `${sdk}index.ts` },
    ],
  },
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: { page: 'index.html', device: 'device.html', worker: 'src/push/worker.ts' },
      output: {
        // No hashes: the gateway sends an ETag, and the files that are checked in keep their names.
        // A service worker serves its own folder and what is below it: so it lies beside the page.
        entryFileNames: ({ name }) => (name === 'worker' ? '[name].js' : 'page/[name].js'),
        chunkFileNames: ({ name }) => `page/${plainName(name)}.js`,
        assetFileNames: ({ names }) => `page/${names[0]?.endsWith('.css') ? 'page.css' : names[0]}`,
      },
    },
  },
  test: {
    include: ['test/**/*.test.ts', ...(process.env.SCREENSHOTS ? ['test/**/*.shots.ts'] : [])],
    environment: 'node',
    testTimeout: 300_000, // guards, no measures: on a busy machine all tests take long
    hookTimeout: 300_000,
    expect: { poll: { timeout: 90_000, interval: 50 } },
    maxWorkers: 2, // each file has a gateway and a browser of its own, and waits for both most of the time
    isolate: false,
  },
});
