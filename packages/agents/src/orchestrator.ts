/**
 * Several agents at once, and one place to answer for all of them. Each runs on its own: one that
 * waits holds no other, and neither does a reader that takes its time.
 */
import { RelayError } from '@relay/protocol';
import { AsyncQueue, type EventStream } from '@relay/core';
import type { AgentEvent, RelayEvent, RelayResponse } from './events.ts';
import { type AgentHarness, createAgentHarness, type InvokeOptions } from './harness.ts';
import type { Invocation } from './invocation.ts';
import { createDefaultHarness } from './models.ts';
import type { AgentRules, CompletePermissions, PermissionsUpdate } from './rules.ts';

/** A relay as the orchestrator shows it: answered by `resolveRelay`. */
export type OrchestratedRelay = Omit<RelayEvent, 'respond'>;

export type OrchestratedEvent = Exclude<AgentEvent, RelayEvent> | OrchestratedRelay;

export interface AgentMessage {
  /** The agent that was spawned here; events of its sub-agents carry their own id besides. */
  readonly agentId: string;
  readonly event: OrchestratedEvent;
}

export class AgentOrchestrator {
  readonly #harness: AgentHarness;
  /** Of all agents there ever were: their rules can be looked at after their end. */
  readonly #rules = new Map<string, AgentRules>();
  readonly #atWork = new Map<string, Invocation>();
  readonly #relays = new Map<string, Invocation>();
  readonly #readers = new Set<AsyncQueue<AgentMessage>>();
  /** What happened while nobody listened. */
  #unread: AgentMessage[] = [];

  /** Without a harness, models are found by their names. */
  constructor(agentHarness?: AgentHarness) {
    this.#harness = agentHarness ?? createAgentHarness({ harness: createDefaultHarness() });
  }

  /** Starts an agent. Throws if no harness offers its model, or if something in the options is wrong. */
  spawn(options: InvokeOptions): string {
    const invocation = this.#harness.prepare({ ...options, alwaysForItself: true });
    const { agentId } = invocation;
    this.#rules.set(agentId, invocation.rules);
    this.#atWork.set(agentId, invocation);
    for (const queue of this.#readers) queue.reopen();
    void this.#forward(invocation);
    return agentId;
  }

  /**
   * What all agents tell, until every one has ended and this has been read. Before the first is
   * spawned, it waits. Whoever comes first gets what happened before; several readers get the same.
   */
  events(): EventStream<AgentMessage> {
    const queue: AsyncQueue<AgentMessage> = new AsyncQueue({
      finished: () => this.#readers.delete(queue),
      left: async (unread) => this.#keep(unread),
    });
    for (const message of this.#unread.splice(0)) queue.push(message);
    if (this.#rules.size > 0 && this.#atWork.size === 0) queue.end();
    this.#readers.add(queue);
    return queue;
  }

  /** Answers a relay of any agent. False if it is not open (any more). */
  resolveRelay(relayId: string, response: RelayResponse): boolean {
    const invocation = this.#relays.get(relayId);
    const answered = invocation?.respond(relayId, response) ?? false;
    if (answered) this.#relays.delete(relayId);
    return answered;
  }

  /** The rules of an agent as they are now, with all four lists. */
  getPermissions(agentId: string): CompletePermissions {
    return this.#rulesOf(agentId).complete();
  }

  /** Replaces the lists that are given, for this agent alone; they hold from its next call on. */
  updatePermissions(agentId: string, update: PermissionsUpdate): void {
    this.#rulesOf(agentId).replace(update);
  }

  /** Cancels an agent with everything below it, or all agents. False if there is none at work. */
  abort(agentId?: string, reason = 'Aborted'): boolean {
    if (agentId !== undefined) this.#rulesOf(agentId);
    const aborted = [...this.#atWork.values()].filter(
      (invocation) => agentId === undefined || invocation.agentId === agentId,
    );
    for (const invocation of aborted) void invocation.cancel(reason);
    return aborted.length > 0;
  }

  #rulesOf(agentId: string): AgentRules {
    const rules = this.#rules.get(agentId);
    if (rules !== undefined) return rules;
    throw new RelayError('not_found', `There is no agent with the id ${agentId}`);
  }

  /** It never rejects. */
  async #forward(invocation: Invocation): Promise<void> {
    const { agentId } = invocation;
    try {
      for await (const event of invocation.events) {
        this.#tell({ agentId, event: this.#withoutRespond(event, invocation) });
      }
    } catch (error) {
      this.#tell({ agentId, event: failureOf(error, invocation) });
    }
    for (const [relayId, owner] of this.#relays) {
      if (owner === invocation) this.#relays.delete(relayId);
    }
    this.#atWork.delete(agentId);
    if (this.#atWork.size > 0) return;
    // Not before they have read all: whoever spawns another agent at the last event reads on.
    for (const queue of this.#readers) queue.end();
  }

  #withoutRespond(event: AgentEvent, invocation: Invocation): OrchestratedEvent {
    if (event.type !== 'relay') return event;
    const { respond: _, ...relay } = event;
    this.#relays.set(relay.id, invocation);
    return relay;
  }

  #tell(message: AgentMessage): void {
    if (this.#readers.size === 0) this.#unread.push(message);
    for (const queue of this.#readers) queue.push(message);
  }

  /** What the last reader left is for the next one: there may be a relay in it. */
  #keep(unread: readonly AgentMessage[]): void {
    if (this.#readers.size === 0) this.#unread = [...unread, ...this.#unread];
  }
}

function failureOf(error: unknown, { runId, agentId }: Invocation): AgentEvent & { type: 'error' } {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof RelayError ? error.code : 'internal';
  return { type: 'error', runId, agentId, message, code };
}
