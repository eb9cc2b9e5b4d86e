/** A harness of processes without processes: a test plays its agents. */
import type { Harness, HarnessContext, HarnessInput, HarnessSession } from '@relay/core';
import { defineHarness } from '@relay/harnesses';
import type { AgentSessionCapabilities, AgentSessionEvent } from '@relay/protocol';

export const agentCapabilities: AgentSessionCapabilities = {
  messaging: { receive: true, send: true },
  delivery: { modes: ['on-idle', 'immediate', 'next-tool-call'], queue: true },
  events: { emits: ['status.changed', 'error', 'log', 'usage.updated'] },
  lifecycle: { release: true, fork: true },
};

/** A session that only starts when Relay has subscribed, as one with a program does. */
export class Agent {
  readonly input: HarnessInput;
  readonly context: HarnessContext;
  readonly state: unknown;
  readonly received: string[] = [];
  emit: (event: AgentSessionEvent) => Promise<void> = () => Promise.reject(new Error('Too early'));

  constructor(input: HarnessInput, context: HarnessContext, state: unknown) {
    this.input = input;
    this.context = context;
    this.state = state;
  }

  get process() {
    const { process: given } = this.input;
    if (given === undefined) throw new Error('The harness was given no process');
    return given;
  }

  /** It works, or waits for work. */
  is(status: 'idle' | 'active'): Promise<void> {
    return this.emit({ type: 'status.changed', status });
  }
}

export class Agents {
  readonly #agents = new Map<string, Agent>();
  onCreate: (agent: Agent) => Promise<void> = async () => undefined;
  onSubscribed: (agent: Agent) => Promise<void> = async () => undefined;
  readonly harness: Harness;

  constructor(name: string) {
    this.harness = defineHarness({
      name,
      runsProcesses: true,
      create: (input, context) => this.#make(input, context, undefined),
      attach: (session, context) => this.#make(session, context, session.state),
    });
  }

  /** The last one that was created or attached under the handle. */
  of(handle: string): Agent {
    const agent = this.#agents.get(handle);
    if (agent === undefined) throw new Error(`There is no agent ${handle}`);
    return agent;
  }

  async #make(
    input: HarnessInput,
    context: HarnessContext,
    state: unknown,
  ): Promise<HarnessSession> {
    const agent = new Agent(input, context, state);
    this.#agents.set(input.handle, agent);
    await this.onCreate(agent);
    return {
      identity: { handle: input.handle, name: 'Agent', kind: 'agent' },
      capabilities: agentCapabilities,
      receiveMessage: async ({ text }) => {
        agent.received.push(text);
        return { status: 'consumed' };
      },
      onEvent: (listener) => {
        agent.emit = listener;
        void this.onSubscribed(agent);
        return () => undefined;
      },
      release: async () => undefined,
      fork: async () => ({ branch: 1 }),
    };
  }
}
