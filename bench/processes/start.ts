/** The processes of a benchmark: starts them, asks them what they use, and stops them. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { defined } from '@relay/protocol';
import { inTime } from './in-time.ts';
import type { Question, Report } from './process.ts';

interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Options of Node. */
  readonly execArgv?: readonly string[];
}

export class BenchProcess {
  readonly child: ChildProcess;
  readonly port: number;
  readonly apiKey: string;

  private constructor(child: ChildProcess, { port = 0, apiKey = '' }: Report) {
    this.child = child;
    this.port = port;
    this.apiKey = apiKey;
  }

  /** `path` is relative to this folder. */
  static async start(path: string, { env, execArgv = [] }: StartOptions = {}) {
    const file = fileURLToPath(new URL(path, import.meta.url));
    const child = fork(file, { env: { ...process.env, ...env }, execArgv: [...execArgv] });
    const ended = new Promise<never>((_, reject) => {
      child.once('exit', (code, signal) => reject(new Error(`${path} ended: ${code ?? signal}`)));
    });
    const listening = Promise.race([next(child, 'port'), ended]);
    return new BenchProcess(child, await inTime(`The start of ${path}`, listening));
  }

  async cpuMs(): Promise<number> {
    return (await this.#ask('cpu', 'cpuMs')).cpuMs ?? Number.NaN;
  }

  /** After garbage collection, if the process was started with `--expose-gc`. */
  async heapBytes(): Promise<number> {
    return (await this.#ask('heap', 'heapBytes')).heapBytes ?? Number.NaN;
  }

  async stop(): Promise<void> {
    if (!this.child.connected) return;
    const ended = once(this.child, 'exit');
    this.child.disconnect();
    await inTime('The end of a process', ended).catch((error: unknown) => {
      this.child.kill('SIGKILL');
      throw error;
    });
  }

  async kill(): Promise<void> {
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }

  async #ask(question: Question, answer: keyof Report): Promise<Report> {
    const answered = next(this.child, answer);
    this.child.send(question);
    return inTime(`The answer to ${question}`, answered);
  }
}

/** The scripted provider and what a benchmark starts in front of it. */
export class Processes {
  readonly #running: BenchProcess[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #profile: string | undefined;

  private constructor(provider: BenchProcess, profile: string | undefined) {
    this.#running = [provider];
    this.#env = { BENCH_PROVIDER_PORT: String(provider.port) };
    this.#profile = profile;
  }

  /** Stops all of them when `work` is done. With `profile`, Relay writes CPU profiles to that folder. */
  static async use(
    profile: string | undefined,
    work: (processes: Processes) => Promise<void>,
  ): Promise<void> {
    const processes = new Processes(await BenchProcess.start('provider.ts'), profile);
    try {
      await work(processes);
    } finally {
      await processes.stop();
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.#running.map((process) => process.stop()));
  }

  async start(path: string, { env, execArgv }: StartOptions = {}): Promise<BenchProcess> {
    const options = { env: { ...this.#env, ...env }, ...defined({ execArgv }) };
    const process = await BenchProcess.start(path, options);
    this.#running.push(process);
    return process;
  }

  relay({ env = {}, execArgv = [] }: StartOptions = {}): Promise<BenchProcess> {
    const profiling =
      this.#profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${this.#profile}`];
    return this.start('relay.ts', { env, execArgv: [...execArgv, ...profiling] });
  }
}

/** The next message that has `field`. */
function next(child: ChildProcess, field: keyof Report): Promise<Report> {
  return new Promise((resolve) => {
    const listen = (message: Report) => {
      if (message[field] === undefined) return;
      child.off('message', listen);
      resolve(message);
    };
    child.on('message', listen);
  });
}
