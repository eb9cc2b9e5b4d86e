import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';

/** Faults, attacks, kills, loads, packing and the growth of time with size: `npm run test:faults`. */
const faults = [
  'test/faults/**/*.test.ts',
  'test/e2e/{agents,dead-peer,kill*,many-streams,nodes*,packed}.test.ts',
  'packages/**/{leaks,*-crash,*.linear}.test.ts',
  'packages/store/test/drivers/**/{crash,faults,nodes}.test.ts',
  'packages/store/test/sql/tampering.postgres.test.ts',
  'packages/tools/test/mcp/hostile-servers.test.ts',
];

/** Real coding agents, which are installed for them: `npm run test:agents`. */
const agents = 'test/agents/**/*.test.ts';

/** These run in both, and look further there. Not RELAY_*: servers would warn of unknown settings. */
const fuzz = ['packages/**/*fuzz.test.ts'];
const fuzzSizes = {
  FUZZ_REQUESTS: '60',
  FUZZ_GLOBS: '20000',
  FUZZ_COMMANDS: '10000',
};

export default defineConfig({
  test: {
    globalSetup: ['test/support/postgres-server.ts'],
    testTimeout: 20_000,
    // The first test that asks for PostgreSQL waits until it has started.
    hookTimeout: 60_000,
    // Real servers and child processes share the machine with the tests.
    maxWorkers: 2,
    // Child processes compile the project once, not each.
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('.cache/node', import.meta.url)) },
    projects: [
      {
        extends: true,
        test: {
          name: 'behaviour',
          include: ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...faults, agents],
          // The files of a worker share their imports, which would cost more than most tests.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'faults',
          include: [...faults, ...fuzz],
          env: { ...fuzzSizes, ...process.env },
        },
      },
      {
        extends: true,
        test: {
          name: 'faults-postgres',
          // The seed that names columns. `npm test` runs it on SQLite.
          include: ['test/conformance/runtime-001-*.test.ts'],
          env: { TEST_STORE: 'postgres' },
        },
      },
      {
        extends: true,
        test: {
          name: 'agents',
          include: [agents],
          globalSetup: ['test/agents/install.ts'],
          testTimeout: 120_000,
          // Codex's own sandbox does not work below the folder for temporary files.
          env: { TMPDIR: fileURLToPath(new URL('.cache/agents-data', import.meta.url)) },
        },
      },
    ],
  },
});
