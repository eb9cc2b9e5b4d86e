import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/support/postgres-server.ts'],
    testTimeout: 20_000,
    // The first one that asks for PostgreSQL waits until it is there.
    hookTimeout: 60_000,
    // Real servers and child processes share two cores: few files at once keeps their timing honest.
    maxWorkers: 2,
  },
});
