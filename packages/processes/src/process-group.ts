/**
 * A command in its own process group, so that everything it starts ends with it. Processes that left
 * the group (`setsid`) are found by the marker in their environment.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMarker, kill, killMarked, markerVariable, startTimeOf } from './process-marker.ts';

export interface CommandLine {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Opens a pipe to its standard input. Default: no input. */
  readonly hasInput?: boolean;
}

export interface ExitStatus {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** From SIGTERM to SIGKILL. */
const termGraceMs = 2_000;
/** How long output is still read; a process that cannot be found may hold the pipes open. */
const outputGraceMs = 1_000;

export class ProcessGroup {
  readonly #child: ChildProcessByStdio<Writable | null, Readable, Readable>;
  readonly #marker = createMarker(randomUUID());
  readonly #exited: Promise<ExitStatus>;
  readonly #startTime: number;
  #ending: Promise<void> | undefined;

  constructor({ file, args, cwd, env, hasInput = false }: CommandLine) {
    this.#child = spawn(file, args, {
      cwd,
      env: { ...env, [markerVariable]: this.#marker },
      stdio: [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      detached: true,
    }) as ChildProcessByStdio<Writable | null, Readable, Readable>;
    this.#startTime = startTimeOf(this.#child.pid);
    this.#exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }));
    });
    this.#exited.catch(() => undefined);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** In the environment of the command and of all that it starts. */
  get marker(): string {
    return this.#marker;
  }

  get stdin(): Writable | null {
    return this.#child.stdin;
  }

  get stdout(): Readable {
    return this.#child.stdout;
  }

  get stderr(): Readable {
    return this.#child.stderr;
  }

  /** Resolves when the command has exited and the rest was killed; rejects if it did not start. */
  async ended(): Promise<ExitStatus> {
    const status = await this.#exited;
    await this.#killAll();
    this.#ending ??= Promise.resolve();
    void sleep(outputGraceMs, undefined, { ref: false }).then(() => {
      this.stdout.destroy();
      this.stderr.destroy();
    });
    return status;
  }

  /** Terminates the group, and kills what is left of it. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    this.#signal('SIGTERM');
    const grace = sleep(termGraceMs, undefined, { ref: false });
    await Promise.race([this.#exited.catch(() => undefined), grace]);
    await this.#killAll();
  }

  async #killAll(): Promise<void> {
    this.#signal('SIGKILL');
    await killMarked((marker) => marker === this.#marker, this.#startTime);
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid !== undefined) kill(-pid, signal);
  }
}
