import type { EventOf, StoredEvent } from '@relay/protocol';
import { expect } from 'vitest';

type Settlement = EventOf<'tool.completed'> | EventOf<'tool.failed'> | EventOf<'tool.denied'>;

export function isSettlement(event: StoredEvent): event is StoredEvent & Settlement {
  return (
    event.type === 'tool.completed' || event.type === 'tool.failed' || event.type === 'tool.denied'
  );
}

/**
 * The tree of agents: one root agent, and below it each sub-agent for a started call of its parent,
 * which is settled only when the sub-agent has ended. Of an agent that has ended nothing more comes.
 */
export function expectSoundTree(events: readonly StoredEvent[]): void {
  const tree = new AgentTree();
  for (const event of events) tree.take(event);
  tree.expectAllEnded();
  tree.expectDelegatedOnce();
}

interface Member {
  readonly parentId: string | undefined;
  /** The call of its parent that it works for. */
  readonly worksFor: string | undefined;
  ended: boolean;
  limits: number;
}

interface Call {
  readonly agentId: string;
  phase: 'called' | 'started' | 'settled';
  via: string | undefined;
}

class AgentTree {
  readonly #members = new Map<string, Member>();
  readonly #calls = new Map<string, Call>();

  take(event: StoredEvent): void {
    const at = `${event.type} at ${event.seq}`;
    if (event.type === 'agent.started') this.#join(event, at);
    // The agent that the run's error names may have ended.
    if (!('agentId' in event) || event.type === 'run.errored') return;
    const member = this.#members.get(event.agentId);
    expect(member, at).toMatchObject({ parentId: event.parentId, ended: false });
    if (member === undefined) return;
    if (event.type === 'limit.reached') expect((member.limits += 1), at).toBe(1);
    if ('toolCallId' in event) this.#takeCall(event, at);
    if (event.type !== 'agent.ended') return;
    const open = [...this.#calls.values()].filter(
      ({ agentId, phase }) => agentId === event.agentId && phase !== 'settled',
    );
    expect(open, at).toEqual([]);
    member.ended = true;
  }

  #join({ agentId, parentId, spawned }: EventOf<'agent.started'>, at: string): void {
    expect(this.#members.has(agentId), at).toBe(false);
    const worksFor = spawned?.toolCallId;
    if (this.#members.size === 0) expect([parentId, worksFor], at).toEqual([undefined, undefined]);
    else {
      const call = { agentId: parentId, phase: 'started' };
      expect(this.#calls.get(worksFor ?? ''), at).toMatchObject(call);
    }
    this.#members.set(agentId, { parentId, worksFor, ended: false, limits: 0 });
  }

  #takeCall(event: Extract<StoredEvent, { toolCallId: string }>, at: string): void {
    const { agentId, toolCallId } = event;
    if (event.type === 'tool.called') {
      this.#calls.set(toolCallId, { agentId, phase: 'called', via: undefined });
    }
    const call = this.#calls.get(toolCallId);
    expect(call?.agentId, at).toBe(agentId);
    if (call === undefined) return;
    if (event.type === 'tool.started') Object.assign(call, { phase: 'started', via: event.via });
    if (!isSettlement(event)) return;
    call.phase = 'settled';
    expect(
      this.#workingFor(toolCallId).filter(({ ended }) => !ended),
      at,
    ).toEqual([]);
  }

  #workingFor(toolCallId: string): Member[] {
    return [...this.#members.values()].filter(({ worksFor }) => worksFor === toolCallId);
  }

  expectAllEnded(): void {
    expect([...this.#members.values()].filter(({ ended }) => !ended)).toEqual([]);
  }

  /** A call that was delegated has exactly one sub-agent, and a handoff has none. */
  expectDelegatedOnce(): void {
    for (const [toolCallId, { via }] of this.#calls) {
      if (via === undefined) continue;
      const agents = this.#workingFor(toolCallId);
      expect(agents, toolCallId).toHaveLength(via === 'agent' ? 1 : 0);
    }
  }
}
