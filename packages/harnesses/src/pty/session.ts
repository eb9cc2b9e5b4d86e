/**
 * The session of a program in a terminal. Nothing can be known of what the program makes of its input, so
 * every event is inferred, and no message is ever reported as consumed.
 *
 *   starting ──▶ idle ◀──▶ active      by what the terminal shows (`terminal.ts`)
 *   any ──the program exits, for whatever reason──▶ released
 *   any ──the host of the terminal dies──▶ failed
 */
import { fileURLToPath } from 'node:url';
import type {
  HarnessContext,
  HarnessMessage,
  HarnessSession,
  Receipt,
  TerminalInput,
} from '@relay/core';
import type { CommandLine } from '@relay/processes';
import type { AgentSessionCapabilities, AgentSessionEvent, SessionIdentity } from '@relay/protocol';
import { AgentProcess } from '../acp/agent-process.ts';
import type { TerminalReport, TerminalRequest, TerminalStart } from './host-messages.ts';
import type { ScreenSize } from './screen.ts';

const terminalCapabilities: AgentSessionCapabilities = {
  messaging: { receive: true },
  // There are neither model calls nor tool calls whose boundaries could be seen.
  delivery: { modes: ['on-idle', 'immediate'], queue: true },
  events: {
    emits: [
      'status.changed',
      'terminal.output',
      'terminal.screen',
      'command.completed',
      'command.failed',
      'error',
    ],
  },
  lifecycle: { release: true },
};

const maxLineChars = 8 * 1024 * 1024;
/** The heap of the host: much more than a screen needs. */
const hostArgs = ['--max-old-space-size=128'];

type Listener = (event: AgentSessionEvent) => Promise<void>;
type WithoutId<Request> = Request extends unknown ? Omit<Request, 'id'> : never;

export interface TerminalOptions {
  readonly harness: string;
  readonly handle: string;
  readonly line: CommandLine;
  /** The most memory of the program and all that it has started. */
  readonly memoryBytes: number;
  /** As it was configured, for events. */
  readonly command: string;
  readonly size: ScreenSize;
}

export class TerminalSession implements HarnessSession {
  readonly identity: SessionIdentity;
  readonly capabilities = terminalCapabilities;
  readonly #options: TerminalOptions;
  /** The host of the terminal. */
  readonly #host: AgentProcess;
  readonly #signal: AbortSignal;
  readonly #startedAt = Date.now();
  readonly #started = Promise.withResolvers<void>();
  readonly #listener = Promise.withResolvers<Listener>();
  readonly #answers = new Map<number, (error: string | undefined) => void>();
  #requests = 0;
  /** Messages that wait for permission. A session that is idle would have given up its requests. */
  #asking = 0;
  #heldStatus: AgentSessionEvent | undefined;
  #exit: Extract<TerminalReport, { type: 'exited' }> | undefined;
  #ending: Promise<void> | undefined;

  constructor(options: TerminalOptions, signal: AbortSignal) {
    const { handle, harness, line, size } = options;
    this.#options = options;
    this.#signal = signal;
    this.identity = { handle, name: harness, kind: 'program' };
    this.#started.promise.catch(() => undefined);
    this.#host = new AgentProcess({
      command: {
        file: process.execPath,
        args: [...hostArgs, fileURLToPath(new URL(`./host${extension()}`, import.meta.url))],
        cwd: line.cwd,
        env: { PATH: line.env['PATH'] ?? '' },
      },
      secrets: [],
      memoryBytes: options.memoryBytes,
    });
    const { file, args, cwd, env } = line;
    this.#tell({ type: 'start', file, args, cwd, env, ...size });
    void this.#run();
    signal.addEventListener('abort', () => void this.release(), { once: true });
  }

  /** Rejects if it cannot be started. */
  async started(): Promise<this> {
    await this.#started.promise;
    return this;
  }

  onEvent(listener: Listener): () => void {
    this.#listener.resolve(listener);
    return () => undefined;
  }

  async receiveMessage(
    message: HarnessMessage,
    context: HarnessContext,
  ): Promise<Receipt | { readonly status: 'held' }> {
    const { text, isFromApprover } = message;
    const problem = textProblem(text);
    if (problem !== undefined) return { status: 'failed', reason: problem };
    if (isFromApprover) {
      await this.#ask({ type: 'submit', text: withoutReturns(text) });
      return { status: 'delivered' };
    }
    void this.#typeIfAllowed(message, context);
    return { status: 'held' };
  }

  /** Never rejects. */
  async #typeIfAllowed(
    { text, deliveryId, from }: HarnessMessage,
    context: HarnessContext,
  ): Promise<void> {
    let given: Receipt;
    this.#asking += 1;
    try {
      const { harness: name } = this.#options;
      const answer = await context.requestPermission({
        tool: `${name}.type`,
        input: { text },
        shown: { from: from.type === 'session' ? `@${from.name}` : from.name },
      });
      given = answer.allowed
        ? await this.#typeApproved(answer.input)
        : { status: 'failed', reason: answer.reason, retryable: answer.by !== 'rule' };
    } catch (error) {
      given = { status: 'failed', reason: messageOf(error), retryable: true };
    }
    this.#asking -= 1;
    const status = this.#heldStatus;
    if (this.#asking === 0 && status !== undefined) {
      this.#heldStatus = undefined;
      await this.#emit(status);
    }
    // The session, or the server, has ended.
    await context.receipt(deliveryId, given).catch(() => undefined);
  }

  /** The approver may have changed it. */
  async #typeApproved(input: unknown): Promise<Receipt> {
    const { text } = input as { readonly text?: unknown };
    if (typeof text !== 'string') {
      return { status: 'failed', reason: 'The approved input has no text' };
    }
    const problem = textProblem(text);
    if (problem !== undefined) return { status: 'failed', reason: problem };
    await this.#ask({ type: 'submit', text: withoutReturns(text) });
    return { status: 'delivered' };
  }

  async input(input: TerminalInput): Promise<void> {
    await this.#ask(
      'text' in input ? { type: 'type', text: input.text } : { type: 'resize', ...input.resize },
    );
  }

  /** Interrupts what runs in the foreground, as Ctrl-C does. */
  async cancel(): Promise<void> {
    await this.#ask({ type: 'type', text: '\x03' });
  }

  /** Ends the program, and everything that it has started. */
  release(): Promise<void> {
    this.#ending ??= this.#host.end('The session has ended');
    return this.#ending;
  }

  async ended(): Promise<void> {
    await this.#host.ended;
  }

  /** Rejects if the program does not read it, or has exited. */
  #ask(request: WithoutId<TerminalRequest>): Promise<void> {
    if (this.#exit !== undefined || this.#ending !== undefined) {
      return Promise.reject(new Error('The program has exited'));
    }
    this.#requests += 1;
    const id = this.#requests;
    return new Promise((resolve, reject) => {
      this.#answers.set(id, (error) => {
        this.#answers.delete(id);
        if (error === undefined) resolve();
        else reject(new Error(error));
      });
      this.#tell({ ...request, id });
    });
  }

  #tell(message: TerminalStart | TerminalRequest): void {
    this.#host.input.write(`${JSON.stringify(message)}\n`);
  }

  /** Until the host has ended. Never rejects. */
  async #run(): Promise<void> {
    const problem = await this.#read().catch(messageOf);
    if (problem !== undefined) void this.#host.kill(problem);
    const { reason } = await this.#host.ended;
    this.#started.reject(new Error(`The terminal cannot be started: ${reason}`));
    for (const answer of this.#answers.values()) answer('The program has exited');
    // Relay has ended it.
    if (this.#ending !== undefined || this.#signal.aborted) return;
    const listener = await this.#listener.promise;
    const last = this.#lastEvents(reason);
    await Promise.all(last.map((event) => listener({ ...event, fidelity: 'inferred' })));
  }

  #lastEvents(problem: string): AgentSessionEvent[] {
    const { command } = this.#options;
    if (this.#exit === undefined) {
      return [
        { type: 'error', error: problem, code: 'terminal_failed' },
        { type: 'status.changed', status: 'failed', reason: problem },
      ];
    }
    const { exitCode, signal } = this.#exit;
    const durationMs = Date.now() - this.#startedAt;
    const reason =
      signal === 0
        ? `The program exited with code ${exitCode}`
        : `The program was ended by signal ${signal}`;
    return [
      exitCode === 0 && signal === 0
        ? { type: 'command.completed', command, exitCode, durationMs }
        : { type: 'command.failed', command, error: reason, exitCode },
      { type: 'status.changed', status: 'released', reason },
    ];
  }

  /** The next lines are read when the events of those before are stored. */
  async #read(): Promise<undefined> {
    const decoder = new TextDecoder();
    let partial = '';
    for await (const chunk of this.#host.output) {
      const lines = (partial + decoder.decode(chunk as Buffer, { stream: true })).split('\n');
      partial = lines.pop() ?? '';
      if (partial.length > maxLineChars) throw new Error('It sent a line that is too long');
      await this.#handle(lines.map((line) => JSON.parse(line) as TerminalReport));
    }
  }

  async #handle(reports: readonly TerminalReport[]): Promise<void> {
    let stored: Promise<void>[] = [];
    for (const report of reports) {
      switch (report.type) {
        case 'started':
          this.#started.resolve();
          break;
        case 'event':
          stored.push(this.#emit(report.event));
          break;
        case 'answer':
          // After the events before it.
          await Promise.all(stored);
          stored = [];
          this.#answers.get(report.id)?.(report.error);
          break;
        case 'exited':
          this.#exit = report;
          void this.#host.end('The program has exited');
          break;
      }
    }
    await Promise.all(stored);
  }

  async #emit(event: AgentSessionEvent): Promise<void> {
    if (event.type === 'status.changed' && this.#asking > 0) {
      this.#heldStatus = event;
      return;
    }
    const listener = await this.#listener.promise;
    await listener(event);
  }
}

/** Of this file: the package runs from its source, or built. */
function extension(): string {
  return import.meta.url.endsWith('.ts') ? '.ts' : '.js';
}

function withoutReturns(text: string): string {
  return text.replaceAll('\r\n', '\n');
}

/**
 * A message is text. A control character in it would act on the terminal, such as Ctrl-C or an escape
 * sequence, and the sender may not be allowed to do that.
 */
function textProblem(text: string): string | undefined {
  const found = /[\p{Cc}--[\t\n]]/v.exec(withoutReturns(text));
  if (found === null) return undefined;
  const code = found[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
  return `The text contains the control character U+${code}, which acts on the terminal: remove it, or type it with POST /v1/sessions/:id/input`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
