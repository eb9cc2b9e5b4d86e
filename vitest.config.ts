import { configDefaults, defineConfig } from 'vitest/config';

/** Faults, kills and loads: `npm run test:faults`. */
const faults = [
  'test/faults/**/*.test.ts',
  'test/e2e/{dead-peer,kill,kill-bash,kill-mcp,many-streams,nodes,nodes-agree}.test.ts',
];

export default defineConfig({
  test: {
    globalSetup: ['test/support/postgres-server.ts'],
    testTimeout: 20_000,
    // The first test that asks for PostgreSQL waits until it has started.
    hookTimeout: 60_000,
    // Real servers and child processes share the machine with the tests.
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: {
          name: 'behaviour',
          include: ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...faults],
          // The files of a worker share their imports, which would cost more than most tests.
          isolate: false,
        },
      },
      { extends: true, test: { name: 'faults', include: faults } },
    ],
  },
});
