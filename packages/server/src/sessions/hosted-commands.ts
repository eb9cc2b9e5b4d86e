/** The commands of a hosted session: its harness carries them out one at a time, beside the messages. */
import {
  answerCommand,
  commandTimeoutMs,
  type Engine,
  type HarnessSession,
  type SessionCommandRecord,
  type SessionRef,
  type TerminalInput,
} from '@relay/core';
import { defined } from '@relay/protocol';
import type { EventPump } from './event-pump.ts';
import { messageOf, within } from './harness-call.ts';

const commandsPerRead = 100;
const maxResultChars = 1024 * 1024;

export interface HostedCommandsOptions {
  readonly engine: Engine;
  readonly ref: SessionRef;
  readonly session: HarnessSession;
  readonly events: EventPump;
  /** One was answered. */
  readonly onAnswered: () => void;
}

export class HostedCommands {
  readonly #options: HostedCommandsOptions;
  readonly #begun = new Set<string>();
  #last: Promise<void> = Promise.resolve();

  constructor(options: HostedCommandsOptions) {
    this.#options = options;
  }

  /** Resolves when those that have begun are answered. */
  get finished(): Promise<void> {
    return this.#last;
  }

  /** Begins those that are open. */
  async begin(): Promise<void> {
    const { engine, ref } = this.#options;
    const { sessions } = engine.store.tenant(ref.tenantId);
    const open = await sessions.openCommands(ref.sessionId, commandsPerRead);
    const isOpen = new Set(open.map(({ id }) => id));
    for (const id of this.#begun) if (!isOpen.has(id)) this.#begun.delete(id);
    for (const command of open) {
      if (this.#begun.has(command.id)) continue;
      this.#begun.add(command.id);
      this.#last = this.#last.then(() => this.#carryOut(command));
    }
  }

  /** Never rejects. Without an answer the command fails after a time. */
  async #carryOut({ id, command, args, at }: SessionCommandRecord): Promise<void> {
    const { engine, ref, session, events, onAnswered } = this.#options;
    const { clock, log } = engine;
    const method = methodOf(session, command, args);
    const ms = at + commandTimeoutMs - clock.now();
    let answer: { ok: true; result?: unknown } | { ok: false; error: string };
    try {
      if (method === undefined) throw new Error(`The session does not implement ${command}`);
      const result = await within(clock, Math.max(0, ms), method);
      await events.flushed();
      answer = { ok: true, ...defined({ result: keptResult(command, result) }) };
    } catch (error) {
      answer = { ok: false, error: messageOf(error) };
    }
    try {
      await answerCommand(engine, ref, id, answer);
    } catch (error) {
      log.warn('Failed to store the answer of a command', { ...ref, error: String(error) });
    }
    onAnswered();
  }
}

function methodOf(
  session: HarnessSession,
  command: SessionCommandRecord['command'],
  args: unknown,
): (() => Promise<unknown>) | undefined {
  if (command === 'input') return session.input?.bind(session, args as TerminalInput);
  if (command !== 'fork') return session[command]?.bind(session);
  return session.fork?.bind(session, defined({ seq: (args as { readonly seq?: number }).seq }));
}

/** What a new session continues with. Throws if it is too large. */
function keptResult(command: SessionCommandRecord['command'], result: unknown): unknown {
  if (command !== 'fork' && command !== 'snapshot') return undefined;
  const text = JSON.stringify(result) ?? 'null';
  if (text.length <= maxResultChars) return JSON.parse(text);
  throw new Error(`The result of ${command} has more than ${maxResultChars} characters`);
}
