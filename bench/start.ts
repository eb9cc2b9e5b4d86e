/**
 * From the start of the process to the first answers: `/health`, and a request with a key. The limit is
 * Node with a bare `node:http` server. Both are polled in the same way.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { comparison, type Contender, interleave, show } from './measure.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const bareServer = `require('node:http').createServer((_, response) => response.end('{}'))
  .listen(process.env.RELAY_PORT, '127.0.0.1')`;

interface Ready {
  readonly healthMs: number;
  readonly keyMs: number;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function start(args: readonly string[], dataDir: string): Promise<Ready> {
  const port = await freePort();
  const began = performance.now();
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: {
      // As `npm start` does.
      NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/relay'),
      ...process.env,
      RELAY_PORT: String(port),
      RELAY_DATA_DIR: dataDir,
      RELAY_LOG_LEVEL: 'warn',
    },
    stdio: 'ignore',
  });
  try {
    const answers = async (path: string, key = '') => {
      const headers = { authorization: `Bearer ${key}` };
      const ask = () => fetch(`http://127.0.0.1:${port}${path}`, { headers });
      while (
        !(await ask().then(
          ({ ok }) => ok,
          () => false,
        ))
      ) {
        if (child.exitCode !== null) throw new Error(`The server ended with ${child.exitCode}`);
        await pause(1);
      }
      return performance.now() - began;
    };
    const healthMs = await answers('/health');
    const key = args.includes('-e') ? '' : readFileSync(join(dataDir, 'first-key'), 'utf8').trim();
    return { healthMs, keyMs: await answers('/v1/runs', key) };
  } finally {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
}

export async function benchStart(rounds: number): Promise<void> {
  const folders: string[] = [];
  const folder = () => {
    const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
    folders.push(dir);
    return dir;
  };
  const used = folder();
  const relay = ['packages/server/src/main.ts'];
  const contenders: Contender<Ready>[] = [
    { name: 'node with a bare server', run: () => start(['-e', bareServer], used) },
    { name: 'Relay', run: () => start(relay, used) },
    { name: 'Relay, on a new folder', run: () => start(relay, folder()) },
  ];
  try {
    await interleave(contenders, 1);
    const results = await interleave(contenders, rounds);
    const figures = (figure: (ready: Ready) => number) =>
      comparison(
        contenders,
        results.map((own) => own.map(figure)),
      );
    show(
      'Start to the first answer of /health',
      figures(({ healthMs }) => healthMs),
      'ms',
    );
    show(
      'Start to the first answer with a key',
      figures(({ keyMs }) => keyMs),
      'ms',
    );
  } finally {
    for (const dir of folders) rmSync(dir, { recursive: true, force: true });
  }
}
