/**
 * A command as a process group of its own: whatever it starts ends with it. Those that left the group
 * (`setsid`) are known by a mark in their environment, where the system shows that.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { beginOf, endBearers, kill, markName, markOf } from './marked-processes.ts';

export interface CommandLine {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** It is spoken to while it runs. Left out: it finds no input. */
  readonly hasInput?: boolean;
}

export interface Ended {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

const politeMs = 2_000;
/** Pipes may be held by somebody who cannot be found. */
const lastWordsMs = 1_000;

export class ProcessGroup {
  readonly #child: ChildProcessByStdio<Writable | null, Readable, Readable>;
  readonly #mark = markOf(randomUUID());
  readonly #exited: Promise<Ended>;
  readonly #beganAt: number;
  #ending: Promise<void> | undefined;

  constructor({ file, args, cwd, env, hasInput = false }: CommandLine) {
    this.#child = spawn(file, args, {
      cwd,
      env: { ...env, [markName]: this.#mark },
      stdio: [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      detached: true,
    }) as ChildProcessByStdio<Writable | null, Readable, Readable>;
    this.#beganAt = beginOf(this.#child.pid);
    this.#exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }));
    });
    this.#exited.catch(() => undefined);
  }

  get pid(): number | undefined {
    return this.#child.pid;
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

  /** When the command itself is over, what it left behind is ended too. Rejects if it never began. */
  async ended(): Promise<Ended> {
    const ended = await this.#exited;
    await this.#killAll();
    this.#ending ??= Promise.resolve();
    void sleep(lastWordsMs, undefined, { ref: false }).then(() => {
      this.stdout.destroy();
      this.stderr.destroy();
    });
    return ended;
  }

  /** Asks all of it to end, and ends it if it does not. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    this.#signal('SIGTERM');
    const polite = sleep(politeMs, undefined, { ref: false });
    await Promise.race([this.#exited.catch(() => undefined), polite]);
    await this.#killAll();
  }

  async #killAll(): Promise<void> {
    this.#signal('SIGKILL');
    await endBearers((mark) => mark === this.#mark, this.#beganAt);
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid !== undefined) kill(-pid, signal);
  }
}
