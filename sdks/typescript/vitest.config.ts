import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    environment: 'node',
    testTimeout: 120_000, // a guard, no measure: on a busy machine all tests take long
    hookTimeout: 120_000,
    maxWorkers: 2,
    isolate: false, // a worker of its own for each file would cost more than the tests; no file changes what another one uses
  },
});
