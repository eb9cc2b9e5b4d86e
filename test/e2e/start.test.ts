/** The start of a server, and `npm start`, whose server ends with it, however it ends. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/kernel.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The first lines of its output, up to the URL or the end. */
async function start(command: readonly string[], dataDir: string) {
  const [name = '', ...args] = command;
  const env = { ...process.env, RELAY_PORT: '0', RELAY_DATA_DIR: dataDir, RELAY_LOG_LEVEL: 'off' };
  const child = spawn(name, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGTERM'));
  let output = '';
  const isOver = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const url = await until(async () => {
    if (child.exitCode !== null) throw new Error(`It did not start: ${output}`);
    return /listening on (http:\S+)/.exec(output)?.[1];
  }, 'the server');
  return { child, url, isOver, output: () => output };
}

function isUp(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(
    () => true,
    () => false,
  );
}

/** Writes the modules that are loaded to the error output, and Node's own modules at the end. */
const listing = `data:text/javascript,import { registerHooks } from 'node:module';
  import { writeSync } from 'node:fs';
  registerHooks({ load(url, context, next) { writeSync(2, url + '\\n'); return next(url, context); } });
  process.on('exit', () => writeSync(2, process.moduleLoadList.join('\\n')));`;

test('a server is ready without loading what its first request does not need', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-start-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const main = 'packages/server/src/main.ts';
  const server = await start([process.execPath, `--import=${listing}`, main], dataDir);
  expect(await isUp(server.url)).toBe(true);
  server.child.kill('SIGTERM');
  await server.isOver;
  const loaded = server.output();
  expect(loaded).toContain('/node_modules/fastify/');
  expect(loaded).toContain('NativeModule internal/http');
  const packages = '@ai-sdk|@fastify/ajv-compiler|@modelcontextprotocol|@opentelemetry|ajv|pg';
  expect(loaded).not.toMatch(new RegExp(`/node_modules/(?:${packages})/`));
  // Node's `fetch`, which an `import` of node:http would load.
  expect(loaded).not.toContain('internal/deps/undici');
}, 60_000);

test.each([
  [['npm', 'start'], 'SIGTERM'],
  [['npm', 'start'], 'SIGKILL'],
  [['node', 'scripts/start.mjs'], 'SIGTERM'],
  [['node', 'scripts/start.mjs'], 'SIGKILL'],
] as const)(
  '%j ends its server on %s, and the next start uses the same folder',
  async (command, signal) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'relay-start-'));
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    const first = await start(command, dataDir);
    expect(await isUp(first.url)).toBe(true);
    first.child.kill(signal);
    await first.isOver;
    await until(async () => !(await isUp(first.url)), 'the server to end');
    const next = await until(
      () => start(command, dataDir).catch(() => undefined),
      'the next start',
    );
    next.child.kill('SIGTERM');
    await next.isOver;
    await until(async () => !(await isUp(next.url)), 'the next server to end');
  },
  60_000,
);
