import type { Message } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import type { AgentDefinition, Guardrail, GuardrailContext } from '../../../src/ports/index.ts';
import { Activity } from '../../../src/run/activity.ts';
import type { AgentState } from '../../../src/run/state/agent.ts';
import { checkInput, checkOutput } from '../../../src/run/agents/guardrails.ts';
import type { LiveRun } from '../../../src/run/live-run.ts';

const seen: [string, string][] = [];

function guard(name: string, refuses = false): Guardrail {
  return {
    name,
    check: (text) => {
      seen.push([name, text]);
      return refuses ? { ok: false, reason: 'Not nice' } : { ok: true };
    },
  };
}

function look(guardrails: AgentDefinition['guardrails'], agent = 'writer') {
  seen.splice(0);
  const definition: AgentDefinition = {
    name: 'writer',
    ...(guardrails === undefined ? {} : { guardrails }),
  };
  const run = {
    identity: { id: 'r1', tenantId: 'tenant' },
    engine: {
      agents: () => ({ find: (name: string) => (name === 'writer' ? definition : undefined) }),
    },
  } as unknown as LiveRun;
  const activity = new Activity('a1');
  return { run, agent: { id: 'a1', name: agent } as AgentState, activity };
}

const conversation: Message[] = [
  { role: 'user', content: 'First' },
  { role: 'assistant', content: 'Well' },
  { role: 'user', content: [{ type: 'text', text: 'Then' }] },
  { role: 'assistant', content: 'So' },
];

describe('a guardrail', () => {
  it('looks at all that was said to the agent', async () => {
    expect(await checkInput(look({ input: [guard('a')] }), conversation)).toBeUndefined();
    expect(seen).toEqual([['a', 'First\n\nThen']]);
    await checkInput(look({ input: [guard('a')] }), []);
    expect(seen).toEqual([['a', '']]);
  });

  it('looks at the answer on its way out, and each side has its own', async () => {
    const both = { input: [guard('in')], output: [guard('out')] };
    expect(await checkOutput(look(both), 'Here')).toBeUndefined();
    expect(seen).toEqual([['out', 'Here']]);
  });

  it('refuses with its name and its reason, and those after it are not asked', async () => {
    const three = { output: [guard('a'), guard('b', true), guard('c')] };
    expect(await checkOutput(look(three), 'Here')).toEqual({
      code: 'guardrail_tripped',
      message: 'The guardrail b refused the output: Not nice',
      retryable: false,
    });
    expect(seen.map(([name]) => name)).toEqual(['a', 'b']);
  });

  it('guards the agent of its name alone', async () => {
    const refusing = { output: [guard('a', true)] };
    expect(await checkOutput(look(refusing, 'somebody else'), 'Here')).toBeUndefined();
    expect(await checkOutput(look(undefined), 'Here')).toBeUndefined();
    expect(seen).toEqual([]);
  });

  it('is told whose text it is, and can be stopped', async () => {
    const told: GuardrailContext[] = [];
    const noting: Guardrail = {
      name: 'a',
      check: (_text, context) => {
        told.push(context);
        return { ok: true };
      },
    };
    const looking = look({ output: [noting] });
    await checkOutput(looking, 'Here');
    const { signal } = looking.activity;
    expect(told).toEqual([{ runId: 'r1', agentId: 'a1', agent: 'writer', signal }]);
  });

  it.each<[string, Guardrail['check']]>([
    ['rejects', () => Promise.reject(new Error('Broken'))],
    [
      'throws',
      () => {
        throw new Error('Broken');
      },
    ],
  ])('that %s guards nothing, so it refuses', async (_how, check) => {
    const error = await checkInput(look({ input: [{ name: 'a', check }] }), conversation);
    expect(error).toMatchObject({ code: 'guardrail_tripped' });
    expect(error?.message).toBe('The guardrail a refused the input: It failed: Broken');
  });

  it.each([undefined, null, true, 'fine', {}, { ok: 'yes' }])(
    'that gives %j for a verdict, as a program without types may, refuses',
    async (verdict) => {
      const check = (() => verdict) as unknown as Guardrail['check'];
      const error = await checkOutput(look({ output: [{ name: 'a', check }] }), 'Here');
      expect(error?.message).toBe('The guardrail a refused the output: It gave no verdict');
    },
  );
});
