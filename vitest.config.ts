import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';

/** Faults, attacks, kills, loads, packing and the growth of time with size: `npm run test:faults`. */
const faults = [
  'test/faults/**/*.test.ts',
  'test/e2e/{agents,dead-peer,kill*,many-streams,nodes*,packed,pnpm,start}.test.ts',
  'test/sdk/{reconnect,readme-handler}.test.ts',
  'packages/**/{leaks,*-crash,*.linear}.test.ts',
  'packages/store/test/drivers/**/{crash,faults,nodes}.test.ts',
  'packages/store/test/sql/tampering*.test.ts',
  'packages/{tools/test/mcp/hostile-servers,harnesses/test/acp/hostile-agents}.test.ts',
];

/** Real coding agents, which are installed for them: `npm run test:agents`. */
const agents = 'test/agents/**/*.test.ts';

/** The console in Chromium: `npm run test:browser`. */
const browser = 'test/browser/**/*.test.ts';

/** Suites that ask for a store, which is that of their project. */
const onBothStores = filesWith("/stores.ts'", 'packages/server/test/**/*.test.ts');

/** Other files of the same worker could have timers, too. */
const countingTimers = filesWith('getTimerCount', '{packages/*/,}test/**/*.test.ts');

function filesWith(text: string, pattern: string): string[] {
  const files = globSync(pattern, { cwd: fileURLToPath(new URL('.', import.meta.url)) });
  return files.filter((file) =>
    readFileSync(new URL(file, import.meta.url), 'utf8').includes(text),
  );
}

/** These run in both, and look further there. Not RELAY_*: servers would warn of unknown settings. */
const fuzz = ['packages/**/*fuzz.test.ts'];
const fuzzSizes = {
  FUZZ_REQUESTS: '60',
  FUZZ_GLOBS: '20000',
  FUZZ_COMMANDS: '10000',
};

export default defineConfig({
  test: {
    globalSetup: ['test/support/temporary-folder.ts', 'test/support/postgres-server.ts'],
    // A deadline, not a promise: the machine may be busy.
    testTimeout: 60_000,
    // The first test that asks for PostgreSQL waits until it has started.
    hookTimeout: 60_000,
    // Also on two cores: tests that wait for real servers and child processes leave them idle.
    maxWorkers: 4,
    expect: { poll: { timeout: 15_000 } },
    env: {
      // Child processes compile the project once, not each.
      NODE_COMPILE_CACHE: fileURLToPath(new URL('.cache/node', import.meta.url)),
      // The CLI names itself as it was started, which differs between npm, npx and an editor.
      npm_lifecycle_event: '',
      // Servers of tests are not those that the CLI of this machine finds.
      XDG_STATE_HOME: fileURLToPath(new URL('.cache/state', import.meta.url)),
    },
    projects: [
      {
        extends: true,
        test: {
          name: 'behaviour',
          include: ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...faults, ...countingTimers, agents, browser],
          // The files of a worker share their imports, which would cost more than most tests.
          isolate: false,
        },
      },
      {
        extends: true,
        test: { name: 'behaviour-isolated', include: countingTimers },
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
          // The seed that names columns, and sessions over HTTP. `npm test` runs them on SQLite.
          include: ['test/conformance/runtime-001-*.test.ts', ...onBothStores],
          env: { TEST_STORE: 'postgres' },
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          include: [browser],
          // Pages, browsers and servers share the machine: what fails twice is a fault.
          retry: 1,
          // The files of a worker share a browser.
          isolate: false,
          maxWorkers: 2,
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
