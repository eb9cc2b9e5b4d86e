/**
 * An MCP server as a program of ours: a process group of its own, with nothing of this process's
 * environment, that ends as a whole. The SDK's own transport leaves behind what a program starts
 * (`npx` starts its server as a child), and bounds nothing but the length of a line.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type JSONRPCMessage,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import { cleanEnvironment } from '../workspace/environment.ts';
import { ProcessGroup } from '../workspace/process-group.ts';
import { LineReader } from './line-reader.ts';
import type { McpProgram } from './settings.ts';

const maxUnreadBytes = 16 * 1024 * 1024;
const maxLastWords = 2_000;
/** A server ends by itself when its input does. */
const politeMs = 1_000;

export interface ProgramOptions {
  readonly config: McpProgram;
  /** What this process was started with: only what is harmless is passed on. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A folder of its own; made if it is not there. */
  readonly home: string;
  readonly cwd: string;
}

export class ProgramTransport implements Transport {
  readonly #options: ProgramOptions;
  #group: ProcessGroup | undefined;
  #reader: LineReader | undefined;
  #closing: Promise<void> | undefined;
  #lastWords = '';
  #why: string | undefined;
  #hasExited = false;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];

  constructor(options: ProgramOptions) {
    this.#options = options;
  }

  /** These two tell the SDK that it is spoken to by pipes. */
  get stderr(): null {
    return null;
  }

  get pid(): number | null {
    return this.#group?.pid ?? null;
  }

  /** It began, and is over. */
  get hasExited(): boolean {
    return this.#hasExited;
  }

  /** Why it is over, with the last that it said beside its answers. For the log alone. */
  get why(): string | undefined {
    const words = this.#lastWords.trim();
    return words === '' ? this.#why : `${this.#why ?? 'It was ended'}: ${words}`;
  }

  async start(): Promise<void> {
    const { config, env, home, cwd } = this.#options;
    if (!existsSync(cwd)) throw new Error(`There is no folder ${cwd}`);
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const group = new ProcessGroup({
      file: config.command,
      args: config.args ?? [],
      cwd,
      env: { ...cleanEnvironment({ env, pass: [], home }), ...config.env },
      hasInput: true,
    });
    this.#group = group;
    group.stdin?.on('error', () => undefined);
    group.stderr.on('data', (piece: Buffer) => {
      this.#lastWords = `${this.#lastWords}${piece.toString('utf8')}`.slice(-maxLastWords);
    });
    group.stderr.on('error', () => undefined);
    this.#reader = new LineReader(group.stdout, {
      message: (message) => this.onmessage?.(message),
      failed: (error) => this.#fail(error),
    });
    void this.#watch(group);
    // It never began if it has no id; `#watch` says why.
    if (group.pid === undefined) await this.#closed(group);
  }

  async #watch(group: ProcessGroup): Promise<void> {
    try {
      const { exitCode, signal } = await group.ended();
      this.#hasExited = true;
      this.#why ??= exitCode === null ? `Ended by ${signal}` : `Ended with exit code ${exitCode}`;
    } catch (error) {
      this.#why ??= `It cannot be started: ${(error as Error).message}`;
    }
    this.#reader?.end();
    this.onclose?.();
  }

  async #closed(group: ProcessGroup): Promise<never> {
    await group.ended();
    throw new Error(this.#why);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#group?.stdin;
    if (stdin === undefined || stdin === null || !stdin.writable) throw new Error('It has ended');
    if (stdin.writableLength > maxUnreadBytes) {
      const error = new Error('It does not read what it is told');
      this.#fail(error);
      throw error;
    }
    stdin.write(serializeMessage(message));
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const group = this.#group;
    if (group === undefined) return;
    const ended = group.ended().catch(() => undefined);
    group.stdin?.end();
    await Promise.race([ended, sleep(politeMs, undefined, { ref: false })]);
    await group.end();
    await ended;
  }

  #fail(error: Error): void {
    this.#why ??= error.message;
    this.onerror?.(error);
    void this.close();
  }
}
