/**
 * Runs several agents at once and answers the relays of all of them. Agents are independent: neither
 * a waiting agent nor a slow reader blocks another one.
 */
import { AsyncQueue, type EventStream } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { AgentEvent, RelayEvent, RelayResponse } from './events.ts';
import { type AgentHarness, createAgentHarness, type InvokeOptions } from './harness.ts';
import type { Invocation } from './invocation.ts';
import { createDefaultHarness } from './models.ts';
import type { AgentRules, CompletePermissions, PermissionsUpdate } from './rules.ts';

/** A relay without `respond`; it is answered with `resolveRelay`. */
export type OrchestratedRelay = Omit<RelayEvent, 'respond'>;

export type OrchestratedEvent = Exclude<AgentEvent, RelayEvent> | OrchestratedRelay;

export interface AgentMessage {
  /** The agent that was spawned; the events of its sub-agents have their own agent id. */
  readonly agentId: string;
  readonly event: OrchestratedEvent;
}

export class AgentOrchestrator {
  readonly #harness: AgentHarness;
  /** Of all agents, because rules can be read after an agent has ended. */
  readonly #rules = new Map<string, AgentRules>();
  readonly #active = new Map<string, Invocation>();
  readonly #relays = new Map<string, Invocation>();
  readonly #readers = new Set<AsyncQueue<AgentMessage>>();
  /** Messages that arrived while there was no reader. */
  #unread: AgentMessage[] = [];

  /** Without a harness, the default harness resolves models by name. */
  constructor(agentHarness?: AgentHarness) {
    this.#harness = agentHarness ?? createAgentHarness({ harness: createDefaultHarness() });
  }

  /** Starts an agent and returns its id. Throws if the model is unknown or the options are invalid. */
  spawn(options: InvokeOptions): string {
    const invocation = this.#harness.prepare({ ...options, privateAlways: true });
    const { agentId } = invocation;
    this.#rules.set(agentId, invocation.rules);
    this.#active.set(agentId, invocation);
    for (const queue of this.#readers) queue.reopen();
    void this.#forward(invocation);
    return agentId;
  }

  /**
   * The events of all agents, until every agent has ended. Before the first agent is spawned, the
   * stream waits. The first reader also gets earlier events; several readers get the same events.
   */
  events(): EventStream<AgentMessage> {
    const queue: AsyncQueue<AgentMessage> = new AsyncQueue({
      finished: () => this.#readers.delete(queue),
      left: async (unread) => this.#keep(unread),
    });
    for (const message of this.#unread.splice(0)) queue.push(message);
    if (this.#rules.size > 0 && this.#active.size === 0) queue.end();
    this.#readers.add(queue);
    return queue;
  }

  /** Answers a relay of any agent. Returns false if it is not open. */
  resolveRelay(relayId: string, response: RelayResponse): boolean {
    const invocation = this.#relays.get(relayId);
    const isAnswered = invocation?.respond(relayId, response) ?? false;
    if (isAnswered) this.#relays.delete(relayId);
    return isAnswered;
  }

  /**
   * The current rules of an agent, with all four lists. The lists are not copies: a change in place
   * applies from the next call on, to all agents that were spawned with the same list.
   */
  getPermissions(agentId: string): CompletePermissions {
    return this.#rulesOf(agentId).complete();
  }

  /** Replaces the given lists for this agent only, from its next call on. */
  updatePermissions(agentId: string, update: PermissionsUpdate): void {
    this.#rulesOf(agentId).replace(update);
  }

  /** Cancels an agent and its sub-agents, or all agents. Returns false if none is active. */
  abort(agentId?: string, reason = 'Aborted'): boolean {
    if (agentId !== undefined) this.#rulesOf(agentId);
    const aborted = [...this.#active.values()].filter(
      (invocation) => agentId === undefined || invocation.agentId === agentId,
    );
    for (const invocation of aborted) void invocation.cancel(reason);
    return aborted.length > 0;
  }

  #rulesOf(agentId: string): AgentRules {
    const rules = this.#rules.get(agentId);
    if (rules !== undefined) return rules;
    throw new RelayError('not_found', `No such agent: ${agentId}`);
  }

  /** Never rejects. */
  async #forward(invocation: Invocation): Promise<void> {
    const { agentId } = invocation;
    try {
      for await (const event of invocation.events) {
        this.#publish({ agentId, event: this.#withoutRespond(event, invocation) });
      }
    } catch (error) {
      this.#publish({ agentId, event: failureOf(error, invocation) });
    }
    for (const [relayId, owner] of this.#relays) {
      if (owner === invocation) this.#relays.delete(relayId);
    }
    this.#active.delete(agentId);
    if (this.#active.size > 0) return;
    // Readers still get the remaining events; a spawn before the last one reopens their queues.
    for (const queue of this.#readers) queue.end();
  }

  #withoutRespond(event: AgentEvent, invocation: Invocation): OrchestratedEvent {
    if (event.type !== 'relay') return event;
    const { respond: _, ...relay } = event;
    this.#relays.set(relay.id, invocation);
    return relay;
  }

  #publish(message: AgentMessage): void {
    if (this.#readers.size === 0) this.#unread.push(message);
    for (const queue of this.#readers) queue.push(message);
  }

  /** Keeps what the last reader left unread for the next one: it can contain a relay. */
  #keep(unread: readonly AgentMessage[]): void {
    if (this.#readers.size === 0) this.#unread = [...unread, ...this.#unread];
  }
}

function failureOf(error: unknown, { runId, agentId }: Invocation): AgentEvent & { type: 'error' } {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof RelayError ? error.code : 'internal';
  return { type: 'error', runId, agentId, message, code };
}
