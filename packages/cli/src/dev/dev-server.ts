/**
 * A server in a child process that restarts when the files of its configuration change, and after a crash.
 *
 * A restart stops the server gracefully and starts another one on the same data folder, which continues the runs.
 * What follows when a server ends:
 * - a file has changed: the next start, at once;
 * - another process stopped it: `relay dev` ends too;
 * - it exited before it was listening, as it does for a mistake in the configuration: the next change starts it again;
 * - otherwise it crashed, or was killed: the next start, after a delay that grows while it keeps crashing.
 *
 * Files are polled: this works on every file system, with editors that replace files, and before a file exists.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type Stats, unwatchFile, watchFile } from 'node:fs';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { configFileNames } from '@relay/server/config-file-names';
import type { DevMessage } from './messages.ts';

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

/** A server that ran for this long before it crashed does not keep crashing. */
const stableMs = 10_000;
const maxDelayMs = 8_000;

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly wasListening: boolean;
  readonly wasStopped: boolean;
}

export class DevServer {
  readonly #options: DevServerOptions;
  readonly #watched = new Set<string>();
  #server: ChildProcess | undefined;
  /** The configuration of the last server that had one. */
  #configFile: string | undefined;
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
    const names = config ? [config] : configFileNames;
    for (const name of ['.env', ...names]) this.#watch(resolve(cwd, name));
    try {
      let crashes = 0;
      while (!this.#stopping) {
        this.#hasChanged = false;
        const startedAt = performance.now();
        const { code, signal, wasListening, wasStopped } = await this.#serve();
        if (this.#stopping || this.#hasChanged) {
          crashes = 0;
        } else if (wasStopped) {
          return 0;
        } else if (signal === null && !wasListening) {
          print(
            `The server ended with exit code ${code} before it was listening. ` +
              'Waiting for a change of the configuration …',
          );
          await this.#nextChange();
          crashes = 0;
        } else {
          crashes = performance.now() - startedAt < stableMs ? crashes + 1 : 1;
          const delayMs = crashes === 1 ? 0 : Math.min(1_000 * 2 ** (crashes - 2), maxDelayMs);
          const when = delayMs === 0 ? '' : ` in ${delayMs / 1_000} s`;
          print(`The server crashed (${signal ?? `exit code ${code}`}): it restarts${when}`);
          await this.#nextChange(delayMs);
          if (this.#hasChanged) crashes = 0;
        }
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
    let configFile: string | undefined;
    let wasListening = false;
    let wasStopped = false;
    server.on('message', ({ imported, listening, stopping }: DevMessage) => {
      if (imported !== undefined) {
        configFile ??= imported;
        this.#watch(imported);
      }
      if (listening) {
        wasListening = true;
        this.#noteMissing(configFile);
      }
      if (stopping) wasStopped = true;
    });
    return new Promise((resolve, reject) => {
      server.on('error', reject);
      // Not `exit`, which can precede the last messages.
      server.on('close', (code, signal) => {
        this.#server = undefined;
        resolve({ code, signal, wasListening, wasStopped });
      });
    });
  }

  #noteMissing(configFile: string | undefined): void {
    const { cwd, print } = this.#options;
    if (configFile === undefined && this.#configFile !== undefined) {
      const name = relative(cwd, this.#configFile);
      print(`${name} is gone: the server runs without its agents and tools`);
    }
    this.#configFile = configFile ?? this.#configFile;
  }

  #watch(path: string): void {
    if (this.#watched.has(path) || this.#stopping) return;
    this.#watched.add(path);
    let last: Stats | undefined;
    watchFile(path, { interval: pollIntervalMs }, (now, previous) => {
      // When a file returns, `previous` is not its absence, but what it was before.
      const before = last ?? previous;
      last = now;
      // Node also calls this once for a file that does not exist.
      if (now.mtimeMs === before.mtimeMs && now.ino === before.ino) return;
      // The server is stopping already, and may be waiting for its tools.
      if (this.#hasChanged) return;
      this.#hasChanged = true;
      const { cwd, print } = this.#options;
      const what = now.ino === 0 ? 'is gone' : 'has changed';
      print(`${relative(cwd, path)} ${what}: the server restarts`);
      this.#server?.kill('SIGTERM');
      this.#wake();
    });
  }

  /** Resolves also after `stop`, and after `timeoutMs`. */
  #nextChange(timeoutMs?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = timeoutMs === undefined ? undefined : setTimeout(resolve, timeoutMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#stopping || this.#hasChanged) this.#wake();
    });
  }
}
