/** Several agents at once: spawning, answering, aborting. */
import { afterEach, describe, expect, test } from 'vitest';
import {
  agentTool,
  type AgentMessage,
  AgentOrchestrator,
  createAgentHarness,
  createDeterministicHarness,
  defineAgent,
  type Harness,
  type OrchestratedRelay,
  registerModel,
  RelayError,
  type RelayResponse,
  type ScriptedEvent,
  unregisterModel,
} from '../src/index.ts';
import { bash, harnessWith, delegate, messages, says, shell, turns } from './support/fixtures.ts';

afterEach(() => void unregisterModel('glm-4.7'));

function patientHarness(...script: readonly (readonly ScriptedEvent[])[]): Harness {
  return createDeterministicHarness(turns(...script), { relayTimeoutMs: Infinity });
}

function orchestratorOf(harness: Harness): AgentOrchestrator {
  return new AgentOrchestrator(createAgentHarness({ harness }));
}

/** Reads to the end, with an answer to every relay that gets one. */
async function readAll(
  orchestrator: AgentOrchestrator,
  answer: (relay: OrchestratedRelay, agentId: string) => RelayResponse | undefined = () =>
    undefined,
): Promise<AgentMessage[]> {
  const received: AgentMessage[] = [];
  for await (const message of orchestrator.events()) {
    received.push(message);
    const { agentId, event } = message;
    const response = event.type === 'relay' ? answer(event, agentId) : undefined;
    if (event.type === 'relay' && response !== undefined)
      orchestrator.resolveRelay(event.id, response);
  }
  return received;
}

const typesOf = (received: readonly AgentMessage[], id: string) =>
  received.filter(({ agentId }) => agentId === id).map(({ event }) => event.type);

describe('AgentOrchestrator', () => {
  test('resolves models by name without a harness', async () => {
    registerModel('glm-4.7', createDeterministicHarness([says('Hello')]));
    const orchestrator = new AgentOrchestrator();
    const agentId = orchestrator.spawn({ model: 'glm-4.7', messages });
    const received = await readAll(orchestrator);
    expect(typesOf(received, agentId)).toEqual(['harness_start', 'text', 'usage', 'harness_end']);
  });

  test('rejects an agent with an unknown model and stays usable', async () => {
    const orchestrator = new AgentOrchestrator();
    const spawn = () => orchestrator.spawn({ model: 'glm-4.7', messages });
    expect(spawn).toThrow(RelayError);
    expect(spawn).toThrow(expect.objectContaining({ code: 'model_unresolved' }));
    expect(() => orchestrator.spawn({ model: 'demo', messages: [] })).toThrow('messages');
    const agentId = orchestrator.spawn({ model: 'demo', messages });
    const received = await readAll(orchestrator);
    expect(new Set(received.map((message) => message.agentId))).toEqual(new Set([agentId]));
  });

  test('returns the agent id at once, and uses it for all events of the agent', async () => {
    const orchestrator = orchestratorOf(patientHarness([says('Hello')]));
    const ids = [1, 2, 3].map(() => orchestrator.spawn({ messages }));
    expect(new Set(ids).size).toBe(3);
    const received = await readAll(orchestrator);
    for (const { agentId, event } of received) expect(event.agentId).toBe(agentId);
    for (const id of ids) expect(typesOf(received, id).at(-1)).toBe('harness_end');
  });

  test('starts agents without a reader', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(patientHarness([bash('tc-1', 'ls')], [says('Done')]));
    orchestrator.spawn({ messages, tools: [tool], permissions: { allowlist: [{ tool: 'bash' }] } });
    await expect.poll(() => ran).toEqual(['ls']);
  });
});

describe('relays', () => {
  test('have no respond, and are answered by their id', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(patientHarness([bash('tc-1', 'ls')], [says('Done')]));
    orchestrator.spawn({ messages, tools: [tool], permissions: { allowlist: [] } });
    const received = await readAll(orchestrator, (relay) => {
      expect(relay).not.toHaveProperty('respond');
      expect(relay).toMatchObject({ kind: 'permission', tool: 'bash', toolCallId: 'tc-1' });
      return { approved: true };
    });
    expect(ran).toEqual(['ls']);
    expect(received.filter(({ event }) => event.type === 'relay')).toHaveLength(1);
  });

  test('of several agents are answered independently', async () => {
    const { tool, ran } = shell();
    const script = ['one', 'two', 'three'].map(
      (name) => [name, turns([bash('tc-1', name)])] as const,
    );
    const orchestrator = orchestratorOf(harnessWith(Object.fromEntries(script)));
    const ids = script.map(([model]) => orchestrator.spawn({ model, messages, tools: [tool] }));
    const relays = new Map<string, string>();
    const received: AgentMessage[] = [];
    for await (const message of orchestrator.events()) {
      received.push(message);
      const { agentId, event } = message;
      if (event.type !== 'relay') continue;
      relays.set(agentId, event.id);
      if (relays.size < 3) continue;
      // The answers in another order than the questions.
      expect(orchestrator.resolveRelay(relays.get(ids[2]!)!, { approved: true })).toBe(true);
      expect(orchestrator.resolveRelay(relays.get(ids[0]!)!, { approved: false })).toBe(true);
      expect(orchestrator.resolveRelay(relays.get(ids[1]!)!, { approved: true })).toBe(true);
    }
    expect(ran.toSorted()).toEqual(['three', 'two']);
  });

  test('do not block other agents while they wait', async () => {
    const { tool, ran } = shell();
    const harness = harnessWith({
      waits: turns([bash('tc-1', 'rm')]),
      works: turns([bash('tc-1', 'ls 1')], [bash('tc-2', 'ls 2')], [says('Done')]),
    });
    const orchestrator = orchestratorOf(harness);
    const permissions = { allowlist: [{ tool: 'bash', params: { command: 'ls*' } }] };
    const waits = orchestrator.spawn({ model: 'waits', messages, tools: [tool], permissions });
    const works = orchestrator.spawn({ model: 'works', messages, tools: [tool], permissions });
    const received: AgentMessage[] = [];
    let relayId = '';
    for await (const message of orchestrator.events()) {
      received.push(message);
      const { agentId, event } = message;
      // Nothing is read meanwhile, but the other agent continues.
      if (event.type === 'relay') {
        relayId = event.id;
        await expect.poll(() => ran).toEqual(['ls 1', 'ls 2']);
      }
      if (event.type === 'harness_end' && agentId === works) {
        orchestrator.resolveRelay(relayId, { approved: false });
      }
    }
    expect(typesOf(received, waits).at(-1)).toBe('harness_end');
  });

  test('accept one answer: resolveRelay returns true once, then false', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(patientHarness([bash('tc-1', 'ls')], [says('Done')]));
    orchestrator.spawn({ messages, tools: [tool] });
    const answered: boolean[] = [];
    let relayId = '';
    await readAll(orchestrator, ({ id }) => {
      relayId = id;
      answered.push(
        orchestrator.resolveRelay('no such relay', { approved: true }),
        orchestrator.resolveRelay(id, { approved: false, reason: 'No' }),
        orchestrator.resolveRelay(id, { approved: true }),
      );
      return undefined;
    });
    answered.push(orchestrator.resolveRelay(relayId, { approved: true }));
    expect(answered).toEqual([false, true, false, false]);
    expect(ran).toEqual([]);
  });

  test('stay open after an invalid answer', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(patientHarness([bash('tc-1', 'ls')], [says('Done')]));
    orchestrator.spawn({ messages, tools: [tool] });
    await readAll(orchestrator, ({ id }) => {
      const wrong = { approved: 1 } as unknown as RelayResponse;
      expect(() => orchestrator.resolveRelay(id, wrong)).toThrow(RelayError);
      return { approved: true };
    });
    expect(ran).toEqual(['ls']);
  });

  test('cannot be answered after they expire', async () => {
    const { tool, ran } = shell();
    const harness = createDeterministicHarness([bash('tc-1', 'ls')], { relayTimeoutMs: 20 });
    const orchestrator = orchestratorOf(harness);
    orchestrator.spawn({ messages, tools: [tool] });
    const late: boolean[] = [];
    for await (const { event } of orchestrator.events()) {
      if (event.type !== 'relay') continue;
      // The loop is held up for longer than the relay lasts: nothing had a chance to notice.
      const until = Date.now() + 30;
      while (Date.now() < until);
      late.push(orchestrator.resolveRelay(event.id, { approved: true }));
    }
    expect(late).toEqual([false]);
    expect(ran).toEqual([]);
  });

  test('of sub-agents have the id of the spawned agent', async () => {
    const { tool, ran } = shell();
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'helper')], [says('Done')]),
      helper: turns([bash('tc-1', 'deep')]),
    });
    const agents = [defineAgent({ name: 'helper', model: 'helper', tools: [tool] })];
    const orchestrator = new AgentOrchestrator(createAgentHarness({ harness, agents }));
    const agentId = orchestrator.spawn({ messages, tools: [agentTool] });
    const received = await readAll(orchestrator, (relay) => {
      expect(relay.agentId).not.toBe(agentId);
      expect(relay.parentId).toBe(agentId);
      expect(relay.agentPath).toEqual(['assistant', 'helper']);
      return { approved: true };
    });
    expect(new Set(received.map((message) => message.agentId))).toEqual(new Set([agentId]));
    expect(ran).toEqual(['deep']);
  });
});

describe('abort', () => {
  test('cancels one agent, also while it waits, and the others continue', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(patientHarness([bash('tc-1', 'ls')], [says('Done')]));
    const [one, other] = [1, 2].map(() => orchestrator.spawn({ messages, tools: [tool] }));
    let relayOfOne = '';
    const received = await readAll(orchestrator, (relay, agentId) => {
      if (agentId !== one) return { approved: true };
      relayOfOne = relay.id;
      expect(orchestrator.abort(one, 'Not needed')).toBe(true);
      expect(orchestrator.resolveRelay(relay.id, { approved: true })).toBe(false);
      return undefined;
    });
    const ends = received.flatMap(({ agentId, event }) =>
      event.type === 'harness_end' ? [[agentId, event.reason]] : [],
    );
    expect(new Map(ends as [string, string][])).toEqual(
      new Map([
        [one, 'canceled'],
        [other, 'completed'],
      ]),
    );
    expect(ran).toEqual(['ls']);
    expect(orchestrator.resolveRelay(relayOfOne, { approved: true })).toBe(false);
  });

  test('without an id cancels all, and ends the events', async () => {
    const orchestrator = orchestratorOf(patientHarness([bash('tc-1', 'ls')]));
    for (let n = 0; n < 3; n += 1) orchestrator.spawn({ messages, tools: [shell().tool] });
    const received: AgentMessage[] = [];
    for await (const message of orchestrator.events()) {
      received.push(message);
      if (message.event.type === 'relay') orchestrator.abort();
    }
    const reasons = received.flatMap(({ event }) =>
      event.type === 'harness_end' ? [event.reason] : [],
    );
    expect(reasons).toEqual(['canceled', 'canceled', 'canceled']);
    expect(orchestrator.abort()).toBe(false);
  });

  test('cancels an agent that was just spawned', async () => {
    const orchestrator = orchestratorOf(patientHarness([says('Hello')]));
    const agentId = orchestrator.spawn({ messages });
    expect(orchestrator.abort(agentId)).toBe(true);
    const received = await readAll(orchestrator);
    expect(received.at(-1)?.event).toMatchObject({ type: 'harness_end' });
    expect(orchestrator.abort(agentId)).toBe(false);
  });

  test('rejects an unknown agent', () => {
    const orchestrator = new AgentOrchestrator();
    expect(() => orchestrator.abort('nobody')).toThrow(RelayError);
    expect(orchestrator.abort()).toBe(false);
  });

  test('also works with the signal of the options', async () => {
    const controller = new AbortController();
    const orchestrator = orchestratorOf(patientHarness([bash('tc-1', 'ls')]));
    orchestrator.spawn({ messages, tools: [shell().tool], signal: controller.signal });
    const received = await readAll(orchestrator, () => {
      controller.abort();
      return undefined;
    });
    expect(received.at(-1)?.event).toMatchObject({ type: 'harness_end', reason: 'canceled' });
  });
});
