/** Starts the processes of a benchmark and asks them what they use. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Question, Report } from './process.ts';

export interface StartOptions {
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
      child.once('exit', (code) => reject(new Error(`${path} ended with ${code}`)));
    });
    return new BenchProcess(child, await Promise.race([next(child, 'port'), ended]));
  }

  async cpuMs(): Promise<number> {
    return (await this.#ask('cpu', 'cpuMs')).cpuMs ?? Number.NaN;
  }

  async stop(): Promise<void> {
    const ended = once(this.child, 'exit');
    this.child.disconnect();
    await ended;
  }

  async #ask(question: Question, answer: keyof Report): Promise<Report> {
    const answered = next(this.child, answer);
    this.child.send(question);
    return answered;
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
