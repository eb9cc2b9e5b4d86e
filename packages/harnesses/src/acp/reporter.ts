/** Emits the events of a session. Each resolves when it is stored, so an agent cannot report more than that. */
import type { PromptResponse } from '@agentclientprotocol/sdk';
import type { Clock } from '@relay/core';
import { type AgentSessionEvent, type AgentStatus, defined } from '@relay/protocol';
import { chunkMs, TranscriptBuffer } from './events.ts';

export interface Usage {
  readonly tokens: number;
  readonly costUsd?: number;
}

export class Reporter {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #transcript = new TranscriptBuffer();
  #isFlushing = false;
  #usage: Usage;
  /** What was spent before this process, if the agent counts from its start. */
  #costBase: number | undefined;
  listener: ((event: AgentSessionEvent) => Promise<void>) | undefined;

  /** `signal`: nothing is flushed any more. */
  constructor(clock: Clock, signal: AbortSignal, usage: Usage) {
    this.#clock = clock;
    this.#signal = signal;
    this.#usage = usage;
  }

  get usage(): Usage {
    return this.#usage;
  }

  async emit(events: readonly AgentSessionEvent[]): Promise<void> {
    const { listener } = this;
    if (listener === undefined || events.length === 0) return;
    await Promise.all(events.map((event) => listener(event)));
  }

  status(status: AgentStatus, reason?: string): Promise<void> {
    return this.emit([{ type: 'status.changed', status, ...defined({ reason }) }]);
  }

  error(error: string, code: string, retryable?: true): Promise<void> {
    return this.emit([{ type: 'error', error, code, ...defined({ retryable }) }]);
  }

  log(level: 'info' | 'warn', message: string): Promise<void> {
    return this.emit([{ type: 'log', level, message }]);
  }

  async say(piece: Parameters<TranscriptBuffer['add']>[0]): Promise<void> {
    await this.emit(this.#transcript.add(piece, this.#clock.now()));
    if (this.#isFlushing || this.#transcript.isEmpty) return;
    this.#isFlushing = true;
    void this.#clock.sleep(chunkMs, this.#signal).then(() => {
      this.#isFlushing = false;
      return this.emit(this.#transcript.flush(this.#clock.now()));
    });
  }

  /** Before anything else happens: what was said is reported first. */
  endMessage(): Promise<void> {
    return this.emit(this.#transcript.end(this.#clock.now()));
  }

  /** Another process may count its costs from 0. */
  startProcess(): void {
    this.#costBase = undefined;
  }

  /** The costs that an agent reports are those of its ACP session, or of its process. */
  async spend(cost: { readonly amount: number; readonly currency: string }): Promise<void> {
    if (cost.currency !== 'USD' || !(cost.amount >= 0)) return;
    const before = this.#usage.costUsd ?? 0;
    this.#costBase ??= cost.amount >= before ? 0 : before;
    const costUsd = this.#costBase + cost.amount;
    if (costUsd <= before) return;
    this.#usage = { ...this.#usage, costUsd };
    await this.emit([{ type: 'usage.updated', ...this.#usage }]);
  }

  /** The tokens of a turn. They are not part of the stable protocol; agents report them all the same. */
  async count(response: PromptResponse): Promise<void> {
    const { usage } = response as { usage?: { totalTokens?: unknown } | null };
    const spent = usage?.totalTokens;
    if (typeof spent !== 'number' || !(spent > 0)) return;
    this.#usage = { ...this.#usage, tokens: this.#usage.tokens + spent };
    await this.emit([{ type: 'usage.updated', ...this.#usage }]);
  }
}
