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

function guarded(guardrails: AgentDefinition['guardrails'], agent = 'writer') {
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
  return [run, { id: 'a1', name: agent } as AgentState, activity] as const;
}

const conversation: Message[] = [
  { role: 'user', content: 'First' },
  { role: 'assistant', content: 'Well' },
  { role: 'user', content: [{ type: 'text', text: 'Then' }] },
  { role: 'assistant', content: 'So' },
];

describe('a guardrail', () => {
  it('checks all user messages of the run', async () => {
    expect(await checkInput(...guarded({ input: [guard('a')] }), conversation)).toBeUndefined();
    expect(seen).toEqual([['a', 'First\n\nThen']]);
    await checkInput(...guarded({ input: [guard('a')] }), []);
    expect(seen).toEqual([['a', '']]);
  });

  it('checks the answer with the output guardrails only', async () => {
    const both = { input: [guard('in')], output: [guard('out')] };
    expect(await checkOutput(...guarded(both), 'Here')).toBeUndefined();
    expect(seen).toEqual([['out', 'Here']]);
  });

  it('refuses with its name and reason, and later guardrails are not called', async () => {
    const three = { output: [guard('a'), guard('b', true), guard('c')] };
    expect(await checkOutput(...guarded(three), 'Here')).toEqual({
      code: 'guardrail_tripped',
      message: 'The guardrail b refused the output: Not nice',
      retryable: false,
      guardrail: { name: 'b', side: 'output', reason: 'Not nice' },
    });
    expect(seen.map(([name]) => name)).toEqual(['a', 'b']);
  });

  it('checks only the agent that it is defined for', async () => {
    const refusing = { output: [guard('a', true)] };
    expect(await checkOutput(...guarded(refusing, 'reader'), 'Here')).toBeUndefined();
    expect(await checkOutput(...guarded(undefined), 'Here')).toBeUndefined();
    expect(seen).toEqual([]);
  });

  it('receives the run, the agent and a signal', async () => {
    const received: GuardrailContext[] = [];
    const noting: Guardrail = {
      name: 'a',
      check: (_text, context) => {
        received.push(context);
        return { ok: true };
      },
    };
    const target = guarded({ output: [noting] });
    await checkOutput(...target, 'Here');
    const { signal } = target[2];
    expect(received).toEqual([{ runId: 'r1', agentId: 'a1', agent: 'writer', signal }]);
  });

  it.each<[string, Guardrail['check']]>([
    ['rejects', () => Promise.reject(new Error('Broken'))],
    [
      'throws',
      () => {
        throw new Error('Broken');
      },
    ],
  ])('that %s counts as a refusal', async (_how, check) => {
    const error = await checkInput(...guarded({ input: [{ name: 'a', check }] }), conversation);
    expect(error).toMatchObject({ code: 'guardrail_tripped' });
    expect(error?.message).toBe('The guardrail a refused the input: the check failed: Broken');
  });

  it.each([undefined, null, true, 'fine', {}, { ok: 'yes' }, { ok: false }])(
    'that gives %j for a verdict, as a program without types may, refuses',
    async (verdict) => {
      const check = (() => verdict) as unknown as Guardrail['check'];
      const error = await checkOutput(...guarded({ output: [{ name: 'a', check }] }), 'Here');
      expect(error?.message).toBe('The guardrail a refused the output: no verdict was returned');
    },
  );
});
