/**
 * A server in a child process that restarts when the files of its configuration change.
 *
 * A restart stops the server gracefully and starts another one on the same data folder, which continues the runs.
 * If the configuration has a mistake, the new server ends with an error, and the next change starts it again. Files
 * are polled: this works on every file system, with editors that replace files, and before a file exists.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { unwatchFile, watchFile } from 'node:fs';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface DevServerOptions {
  /** For `relay serve`. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly print: (line: string) => void;
}

const pollIntervalMs = 250;
const bin = fileURLToPath(new URL('../../bin/relay.mjs', import.meta.url));
const isSource = import.meta.url.endsWith('.ts');
const preload = new URL(`./report-imports.${isSource ? 'ts' : 'js'}`, import.meta.url).href;

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Of a server that was stopped in order, or at once by a second signal. */
const stopCodes = [0, 130, 143];

export class DevServer {
  readonly #options: DevServerOptions;
  readonly #watched = new Set<string>();
  #server: ChildProcess | undefined;
  #hasChanged = false;
  #stopping = false;
  #wake = () => {};

  constructor(options: DevServerOptions) {
    this.#options = options;
  }

  /** Resolves with an exit code, after `stop` or if the server was stopped by another process. */
  async run(): Promise<number> {
    const { env, cwd, print } = this.#options;
    const config = env['RELAY_CONFIG']?.trim();
    for (const name of ['.env', config || 'relay.config.ts']) this.#watch(resolve(cwd, name));
    try {
      while (!this.#stopping) {
        const { code, signal } = await this.#serve();
        if (this.#stopping) break;
        if (!this.#hasChanged) {
          if (signal === null && stopCodes.includes(code ?? 0)) return 0;
          if (signal === null) {
            print('Waiting for a change of the configuration …');
            await this.#nextChange();
          }
        }
        if (this.#stopping) break;
        if (!this.#hasChanged) print(`Ended by ${signal}: the server restarts`);
        this.#hasChanged = false;
      }
      return 0;
    } finally {
      for (const path of this.#watched) unwatchFile(path);
    }
  }

  /** `signal` may have reached this process only. */
  stop(signal: NodeJS.Signals): void {
    this.#stopping = true;
    this.#server?.kill(signal);
    this.#wake();
  }

  #serve(): Promise<Ended> {
    const { args, env, cwd } = this.#options;
    const server = spawn(
      process.execPath,
      ['--import', preload, bin, 'serve', '--development', ...args],
      // The server stops when the channel closes: also if this process is killed.
      { cwd, env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] },
    );
    this.#server = server;
    server.on('message', ({ imported }: { imported?: string }) => {
      if (imported !== undefined) this.#watch(imported);
    });
    return new Promise((resolve, reject) => {
      server.on('error', reject);
      server.on('exit', (code, signal) => {
        this.#server = undefined;
        resolve({ code, signal });
      });
    });
  }

  #watch(path: string): void {
    if (this.#watched.has(path) || this.#stopping) return;
    this.#watched.add(path);
    watchFile(path, { interval: pollIntervalMs }, (now, before) => {
      // Node also calls this once for a file that does not exist.
      if (now.mtimeMs === before.mtimeMs && now.ino === before.ino) return;
      // The server is stopping already, and may be waiting for its tools.
      if (this.#hasChanged) return;
      this.#hasChanged = true;
      const { cwd, print } = this.#options;
      print(`${relative(cwd, path)} has changed: the server restarts`);
      this.#server?.kill('SIGTERM');
      this.#wake();
    });
  }

  #nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.#stopping || this.#hasChanged) resolve();
    });
  }
}
