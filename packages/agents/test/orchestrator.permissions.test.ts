/** The rules of agents that an orchestrator manages. */
import { describe, expect, test } from 'vitest';
import {
  AgentOrchestrator,
  createAgentHarness,
  createDeterministicHarness,
  type OrchestratedRelay,
  type Permissions,
  type RelayResponse,
  RelayError,
  type ScriptedEvent,
} from '../src/index.ts';
import { bash, messages, says, shell, turns } from './support/fixtures.ts';

function orchestratorOf(...script: readonly (readonly ScriptedEvent[])[]) {
  const harness = createDeterministicHarness(turns(...script), { relayTimeoutMs: Infinity });
  return new AgentOrchestrator(createAgentHarness({ harness }));
}

/** Answers all relays, and says which calls were asked about, by agent. */
async function askedAbout(
  orchestrator: AgentOrchestrator,
  answer: (relay: OrchestratedRelay, agentId: string) => RelayResponse,
): Promise<Record<string, string[]>> {
  const asked: Record<string, string[]> = {};
  for await (const { agentId, event } of orchestrator.events()) {
    if (event.type !== 'relay') continue;
    (asked[agentId] ??= []).push(event.toolCallId);
    orchestrator.resolveRelay(event.id, answer(event, agentId));
  }
  return asked;
}

const ls = { tool: 'bash', params: { command: 'ls*' } };

describe('getPermissions', () => {
  test('returns all lists', () => {
    const orchestrator = orchestratorOf([says('Hello')]);
    const none = orchestrator.spawn({ messages });
    expect(orchestrator.getPermissions(none)).toEqual({
      allowlist: [],
      allowOnce: [],
      deny: [],
      denylist: [],
    });
    const some = orchestrator.spawn({ messages, permissions: { allowlist: [ls] } });
    expect([...orchestrator.getPermissions(some).allowlist]).toEqual([ls]);
    orchestrator.abort();
  });

  test('reflects used and added rules', async () => {
    const { tool } = shell();
    const orchestrator = orchestratorOf([bash('tc-1', 'ls')], [bash('tc-2', 'pwd')]);
    const permissions = { allowOnce: [ls] };
    const agentId = orchestrator.spawn({ messages, tools: [tool], permissions });
    await askedAbout(orchestrator, () => ({ approved: true, always: true }));
    expect(orchestrator.getPermissions(agentId)).toMatchObject({
      allowlist: [{ tool: 'bash', exact: { command: 'pwd' } }],
      allowOnce: [],
    });
  });

  test('and updatePermissions reject an unknown agent', () => {
    const orchestrator = new AgentOrchestrator();
    expect(() => orchestrator.getPermissions('nobody')).toThrow(RelayError);
    expect(() => orchestrator.updatePermissions('nobody', {})).toThrow('nobody');
  });
});

describe('updatePermissions', () => {
  test('applies from the next call of this agent on, and to no other agent', async () => {
    const { tool } = shell();
    const permissions: Permissions = { allowlist: [] };
    const orchestrator = orchestratorOf([bash('tc-1', 'ls')], [bash('tc-2', 'ls -l')], [says('x')]);
    const spawn = () => orchestrator.spawn({ messages, tools: [tool], permissions });
    const [one, other] = [spawn(), spawn()];
    const asked = await askedAbout(orchestrator, (_relay, agentId) => {
      if (agentId === one) orchestrator.updatePermissions(one, { allowlist: [ls] });
      return { approved: true };
    });
    expect(asked).toEqual({ [one]: ['tc-1'], [other]: ['tc-1', 'tc-2'] });
    expect(permissions).toEqual({ allowlist: [] });
  });

  test('accepts the params of a relay, with scalars as patterns', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(
      [bash('tc-1', 'ls *')],
      [bash('tc-2', 'ls /tmp')],
      [says('x')],
    );
    const agentId = orchestrator.spawn({ messages, tools: [tool] });
    const asked = await askedAbout(orchestrator, (event) => {
      orchestrator.updatePermissions(agentId, {
        allowlist: [
          ...orchestrator.getPermissions(agentId).allowlist,
          { tool: event.tool, params: event.params },
        ],
      });
      return { approved: true };
    });
    expect(asked[agentId]).toEqual(['tc-1']);
    expect(ran).toEqual(['ls *', 'ls /tmp']);
  });

  test('changes nothing if it is invalid, and the relay stays open', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf([bash('tc-1', 'ls [')], [says('x')]);
    const agentId = orchestrator.spawn({ messages, tools: [tool] });
    await askedAbout(orchestrator, (event) => {
      const rule = { tool: event.tool, params: event.params };
      expect(() => orchestrator.updatePermissions(agentId, { denylist: [rule] })).toThrow(
        expect.objectContaining({ code: 'invalid_pattern' }),
      );
      return { approved: true };
    });
    expect(ran).toEqual(['ls [']);
    expect(orchestrator.getPermissions(agentId).denylist).toEqual([]);
  });

  test('can deny a later call', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf([bash('tc-1', 'ls')], [bash('tc-2', 'pwd')], [says('x')]);
    const agentId = orchestrator.spawn({ messages, tools: [tool] });
    const asked = await askedAbout(orchestrator, () => {
      orchestrator.updatePermissions(agentId, { deny: [{ toolCallId: 'tc-2', reason: 'No' }] });
      return { approved: true };
    });
    expect(asked[agentId]).toEqual(['tc-1']);
    expect(ran).toEqual(['ls']);
  });
});

describe('always', () => {
  test('applies to the requesting agent only, also if rules are shared', async () => {
    const { tool } = shell();
    const permissions: Permissions = { allowlist: [] };
    const orchestrator = orchestratorOf([bash('tc-1', 'ls')], [bash('tc-2', 'ls')], [says('x')]);
    const spawn = () => orchestrator.spawn({ messages, tools: [tool], permissions });
    const [one, other] = [spawn(), spawn()];
    const asked = await askedAbout(orchestrator, (_relay, agentId) => ({
      approved: true,
      always: agentId === one,
    }));
    expect(asked).toEqual({ [one]: ['tc-1'], [other]: ['tc-1', 'tc-2'] });
    expect(permissions.allowlist).toEqual([]);
  });
});

describe('the shared permissions object', () => {
  test('is read again for each call until the agent has its own list', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = {};
    const orchestrator = orchestratorOf([bash('tc-1', 'rm')], [bash('tc-2', 'ls')], [says('x')]);
    const agentId = orchestrator.spawn({ messages, tools: [tool], permissions });
    const asked = await askedAbout(orchestrator, () => {
      permissions.allowlist = [ls];
      return { approved: false };
    });
    expect(asked[agentId]).toEqual(['tc-1']);
    expect(ran).toEqual(['ls']);
  });

  test('gives an allow-once rule to the first agent that uses it', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = { allowOnce: [ls] };
    const orchestrator = orchestratorOf([bash('tc-1', 'ls')], [says('x')]);
    for (let n = 0; n < 5; n += 1) orchestrator.spawn({ messages, tools: [tool], permissions });
    const asked = await askedAbout(orchestrator, () => ({ approved: false }));
    expect(Object.keys(asked)).toHaveLength(4);
    expect(ran).toEqual(['ls']);
    expect(permissions.allowOnce).toEqual([]);
  });
});
