/**
 * The process of an agent. It has its own process group and marker, so that whatever it has started ends with
 * it, also commands with a session of their own. The end of its input asks it to exit, as agents do; then it is
 * terminated, and then killed.
 */
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ticker } from '@relay/core';
import { type CommandLine, memoryByMarker, ProcessGroup } from '@relay/processes';
import type { AgentEnd, AgentProgram } from './connection.ts';

export interface AgentProcessOptions {
  readonly command: Omit<CommandLine, 'hasInput'>;
  /** Not shown in reasons. */
  readonly secrets: readonly string[];
  /** The most memory of the agent and all that it has started. Not limited where `/proc` is missing. */
  readonly memoryBytes: number;
}

const stderrBytes = 64 * 1024;
/** Faster output is held back. */
const stderrBytesPerSecond = 1024 * 1024;
const shownStderrChars = 700;
/** Codex needs 2 s to exit. */
const exitGraceMs = 3_000;
const memoryIntervalMs = 2_000;
const megabyte = 1024 * 1024;

export class AgentProcess implements AgentProgram {
  readonly #group: ProcessGroup;
  readonly #options: AgentProcessOptions;
  readonly input: Writable;
  readonly ended: Promise<AgentEnd>;
  #stderr = Buffer.alloc(0);
  #stderrWindow = { since: 0, bytes: 0 };
  #reason: string | undefined;

  constructor(options: AgentProcessOptions) {
    this.#options = options;
    this.#group = new ProcessGroup({ ...options.command, hasInput: true });
    const { stdin, stderr } = this.#group;
    if (stdin === null) throw new Error('The agent has no input');
    this.input = stdin;
    stdin.on('error', () => undefined);
    stderr.on('data', (chunk: Buffer) => this.#keepStderr(chunk));
    stderr.on('error', () => undefined);
    this.ended = this.#watch();
    memoryTicker.add(this);
  }

  get output(): Readable {
    return this.#group.stdout;
  }

  get pid(): number | undefined {
    return this.#group.pid;
  }

  async end(reason: string): Promise<void> {
    this.#reason ??= reason;
    this.input.end();
    await Promise.race([this.ended, sleep(exitGraceMs, undefined, { ref: false })]);
    await this.kill(reason);
  }

  async kill(reason: string): Promise<void> {
    this.#reason ??= reason;
    await this.#group.end();
    await this.ended;
  }

  async #watch(): Promise<AgentEnd> {
    let status: string;
    try {
      const { exitCode, signal } = await this.#group.ended();
      status =
        exitCode === null
          ? `The agent was ended by ${signal}`
          : `The agent exited with code ${exitCode}`;
    } catch (error) {
      status = `The agent cannot be started: ${(error as Error).message}`;
    }
    memoryTicker.delete(this);
    return { reason: [this.#reason ?? status, this.#shownStderr()].filter(Boolean).join(': ') };
  }

  #keepStderr(chunk: Buffer): void {
    this.#stderr = Buffer.concat([this.#stderr, chunk]).subarray(-stderrBytes);
    const now = Date.now();
    if (now - this.#stderrWindow.since >= 1_000) this.#stderrWindow = { since: now, bytes: 0 };
    this.#stderrWindow.bytes += chunk.length;
    if (this.#stderrWindow.bytes < stderrBytesPerSecond) return;
    const { stderr } = this.#group;
    stderr.pause();
    setTimeout(() => stderr.resume(), 1_000).unref();
  }

  /** The last lines, as plain text. */
  #shownStderr(): string {
    const text = this.#options.secrets
      .reduce(
        (clean, secret) => (secret === '' ? clean : clean.replaceAll(secret, '[redacted]')),
        this.#stderr.toString('utf8'),
      )
      // oxlint-disable-next-line no-control-regex -- Colours and other control characters of a terminal.
      .replaceAll(/\u001B\[[\d;?]*[A-Za-z]|[\u0000-\u0008\u000B-\u001F\u007F]/g, '')
      .trim();
    if (text.length <= shownStderrChars) return text;
    const end = text.slice(-shownStderrChars);
    return `…${end.slice(end.indexOf('\n') + 1)}`;
  }

  checkMemory(memory: ReadonlyMap<string, number>): void {
    const { memoryBytes } = this.#options;
    if ((memory.get(this.#group.marker) ?? 0) <= memoryBytes) return;
    const limit = `${Math.round(memoryBytes / megabyte)} MB`;
    void this.kill(`The agent and what it has started use more than ${limit} of memory`);
  }
}

/** One look at all processes, for all agents of this server. */
let isReading = false;
const memoryTicker = new Ticker<AgentProcess>(memoryIntervalMs, (agents) => {
  if (isReading) return;
  isReading = true;
  void memoryByMarker()
    .then((memory) => {
      for (const agent of agents) agent.checkMemory(memory);
    })
    .finally(() => (isReading = false));
});
