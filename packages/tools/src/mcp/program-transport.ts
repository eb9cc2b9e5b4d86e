/**
 * An MCP server as a child process: it has its own process group, which ends as a whole, and nothing of
 * this process's environment. The SDK's transport does not end the children of a program (`npx` starts
 * its server as a child), and bounds only the length of a line.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type JSONRPCMessage,
  parseJSONRPCMessage,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import { cleanEnvironment, LineReader, ProcessGroup } from '@relay/processes';
import type { McpProgram } from './settings.ts';

const maxUnreadBytes = 16 * 1024 * 1024;
const maxStderrChars = 2_000;
/** A server usually exits when its input ends. */
const exitGraceMs = 1_000;

export interface ProgramOptions {
  readonly config: McpProgram;
  /** The environment of this process, of which only harmless variables are passed on. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Its home folder; created if it does not exist. */
  readonly home: string;
  readonly cwd: string;
}

export class ProgramTransport implements Transport {
  readonly #options: ProgramOptions;
  #group: ProcessGroup | undefined;
  #reader: LineReader | undefined;
  #closing: Promise<void> | undefined;
  #stderrTail = '';
  #reason: string | undefined;
  #hasExited = false;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];

  constructor(options: ProgramOptions) {
    this.#options = options;
  }

  /** `stderr` and `pid` tell the SDK that this is a stdio transport. */
  get stderr(): null {
    return null;
  }

  get pid(): number | null {
    return this.#group?.pid ?? null;
  }

  /** It was started and has exited. */
  get hasExited(): boolean {
    return this.#hasExited;
  }

  /** Why it has ended. */
  get exitReason(): string | undefined {
    return this.#reason;
  }

  /** The end of its error output. For the log only. */
  get errorOutput(): string {
    return this.#stderrTail.trim();
  }

  async start(): Promise<void> {
    const { config, env, home, cwd } = this.#options;
    if (!existsSync(cwd)) throw new Error(`There is no folder ${cwd}`);
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const group = new ProcessGroup({
      file: config.command,
      args: config.args ?? [],
      cwd,
      env: { ...cleanEnvironment({ env, pass: [], home, workspace: home }), ...config.env },
      hasInput: true,
    });
    this.#group = group;
    group.stdin?.on('error', () => undefined);
    group.stderr.on('data', (chunk: Buffer) => {
      this.#stderrTail = `${this.#stderrTail}${chunk.toString('utf8')}`.slice(-maxStderrChars);
    });
    group.stderr.on('error', () => undefined);
    this.#reader = new LineReader(group.stdout, {
      line: (line) => this.#receive(line),
      tooLong: (maxBytes) =>
        this.#fail(new Error(`The MCP program sent a line of more than ${maxBytes} bytes`)),
    });
    void this.#watch(group);
    // Without a pid it was not started; `#watch` sets the reason.
    if (group.pid === undefined) await this.#closed(group);
  }

  async #watch(group: ProcessGroup): Promise<void> {
    try {
      const { exitCode, signal } = await group.ended();
      this.#hasExited = true;
      this.#reason ??=
        exitCode === null
          ? `The MCP program was ended by ${signal}`
          : `The MCP program exited with code ${exitCode}`;
    } catch (error) {
      this.#reason ??= startProblem(error as NodeJS.ErrnoException, this.#options.config.command);
    }
    this.#reader?.end();
    this.onclose?.();
  }

  async #closed(group: ProcessGroup): Promise<never> {
    await group.ended();
    throw new Error(this.#reason);
  }

  /** A line that is not a message is skipped. */
  #receive(line: string): void {
    if (!line.startsWith('{')) return;
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(JSON.parse(line));
    } catch {
      return;
    }
    this.onmessage?.(message);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#group?.stdin;
    if (stdin === undefined || stdin === null || !stdin.writable)
      throw new Error('The MCP program has exited');
    if (stdin.writableLength > maxUnreadBytes) {
      const error = new Error('The MCP program does not read its input');
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
    await Promise.race([ended, sleep(exitGraceMs, undefined, { ref: false })]);
    await group.end();
    await ended;
  }

  #fail(error: Error): void {
    this.#reason ??= error.message;
    this.onerror?.(error);
    void this.close();
  }
}

function startProblem({ code, message }: NodeJS.ErrnoException, command: string): string {
  return code === 'ENOENT'
    ? `There is no program ${command}`
    : `The MCP program cannot be started: ${message}`;
}
