/** Guardrails: functions that look at what goes into an agent and at what comes out of it. */
import type { Guardrail, GuardrailContext, Guardrails } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import {
  agentFor,
  createScriptedAgents,
  delegate,
  endFor,
  resultOf,
  says,
} from './scripted-agents.ts';
import { endOf, finished, ofType, openFixture, stopRun, untilStored } from './fixture.ts';
import { mortal } from './stores.ts';

/** Refuses whatever has this word in it. */
function no(word: string, pause?: () => Promise<void>): Guardrail {
  const look = (said: string) =>
    said.includes(word)
      ? ({ ok: false, reason: `It says ${word}` } as const)
      : { ok: true as const };
  return {
    name: `no-${word}`,
    check: pause === undefined ? look : async (said) => (await pause(), look(said)),
  };
}

const later = () => new Promise<void>((resolve) => setTimeout(resolve, 2));

function agentsWith(guardrails: Guardrails) {
  return [{ name: 'assistant', guardrails }];
}

const kinds: [string, (word: string) => Guardrail][] = [
  ['at once', (word) => no(word)],
  ['after a while', (word) => no(word, later)],
];

describe('a guardrail', () => {
  test.each(kinds)(
    'on the input that refuses %s ends the run before the model',
    async (...given) => {
      const [, guard] = given;
      const { boot } = await openFixture();
      const model = createScriptedModel([says('Hello.')]);
      const agents = agentsWith({ input: [guard('Begin')] });
      const kernel = await boot({ model, agents });
      const run = await ask(kernel);
      const events = await finished(kernel, run.id);
      const error = {
        code: 'guardrail_tripped',
        message: 'The guardrail no-Begin refused the input: It says Begin',
        retryable: false,
      };
      expect(model.requests).toEqual([]);
      expect(ofType(events, 'turn.started')).toEqual([]);
      expect(ofType(events, 'run.errored')).toMatchObject([{ error }]);
      expect(endOf(events)).toMatchObject({ status: 'failed', output: '', error });
    },
  );

  test.each(kinds)('on the output that refuses %s discards the text', async (...given) => {
    const [, guard] = given;
    const { boot } = await openFixture();
    const model = createScriptedModel([[text('The secret '), text('is 42.'), finish()]]);
    const agents = agentsWith({ output: [guard('secret')] });
    const kernel = await boot({ model, agents });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const [turn] = ofType(events, 'turn.started');
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { reason: 'guardrail', code: 'guardrail_tripped', textId: turn?.textId, after: turn?.seq },
    ]);
    expect(ofType(events, 'turn.completed')).toEqual([]);
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      output: '',
      // It was paid for.
      usage: { inputTokens: 3, outputTokens: 2 },
      error: { code: 'guardrail_tripped' },
    });
    // What was taken back is not part of the conversation.
    const next = await ask(kernel, { conversationId: run.conversationId });
    await finished(kernel, next.id);
    expect(JSON.stringify(model.requests.at(-1)?.messages)).not.toContain('42');
  });

  test.each(kinds)('that accepts %s lets everything through', async (...given) => {
    const [, guard] = given;
    const { boot } = await openFixture();
    const model = createScriptedModel([says('Hello.')]);
    const agents = agentsWith({ input: [guard('x'), guard('y')], output: [guard('x')] });
    const kernel = await boot({ model, agents });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Hello.' });
  });

  const faulty: [string, Guardrail['check']][] = [
    [
      'throws',
      () => {
        throw new Error('Out of order');
      },
    ],
    ['rejects', () => Promise.reject(new Error('Out of order'))],
    ['says nothing', () => undefined as never],
  ];
  test.each(faulty)('that %s refuses', async (...given) => {
    const [, check] = given;
    const { boot } = await openFixture();
    const model = createScriptedModel([says('Hello.')]);
    for (const side of ['input', 'output'] as const) {
      const agents = agentsWith({ [side]: [{ name: 'faulty', check }] });
      const kernel = await boot({ model, agents });
      const run = await ask(kernel);
      const events = await finished(kernel, run.id);
      expect(endOf(events)).toMatchObject({
        status: 'failed',
        error: { code: 'guardrail_tripped' },
      });
    }
  });

  test('checks an answer, not the text beside a call', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const seen: string[] = [];
    const noting: Guardrail = {
      name: 'noting',
      check(said) {
        seen.push(said);
        return { ok: true };
      },
    };
    const model = createScriptedModel([
      [text('Let me look. '), toolCall('a', 'look', {}), finish()],
      says('Seen.'),
    ]);
    const agents = agentsWith({ input: [noting], output: [noting] });
    const kernel = await boot({ model, agents, tools: [tool] });
    const run = await ask(kernel);
    await finished(kernel, run.id);
    expect(seen).toEqual(['Begin', 'Seen.']);
  });

  test('checks the final answer of a run that reached its limit', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createScriptedModel([[toolCall('a', 'look', {}), finish()], says('A secret.')]);
    const agents = agentsWith({ output: [no('secret')] });
    const kernel = await boot({ model, agents, tools: [tool] });
    const run = await ask(kernel, { maxIterations: 1 });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'failed', output: '' });
    expect(ofType(events, 'turn.discarded')).toMatchObject([{ reason: 'guardrail' }]);
  });

  test('that refuses a sub-agent’s answer is an error of the tool, and the parent continues', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x', 'in'), delegate('b', 'y', 'out'), finish()], says('Done.')],
      x: [says('X.')],
      y: [says('A secret.')],
    });
    const agents = [
      { name: 'in', guardrails: { input: [no('x')] } },
      { name: 'out', guardrails: { output: [no('secret')] } },
    ];
    const kernel = await boot({ model, agents, tools: [agentTool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const code = 'guardrail_tripped';
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.failed', code });
    expect(resultOf(events, 'b')).toMatchObject({ type: 'tool.failed', code });
    expect(endFor(events, 'x')).toMatchObject({ reason: 'failed', output: '', error: { code } });
    expect(endFor(events, 'y')).toMatchObject({ reason: 'failed', output: '', error: { code } });
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { agentId: agentFor(events, 'y').agentId, reason: 'guardrail' },
    ]);
    expect(model.requestsFor('x')).toEqual([]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('is that of the current agent: after a handoff the target’s guardrails apply', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([
      [toolCall('a', 'handoff', { agent: 'strict' }), finish()],
      says('A secret.'),
    ]);
    const agents = [{ name: 'strict', guardrails: { output: [no('secret')] } }];
    const kernel = await boot({ model, agents });
    const run = await ask(kernel, { handoffs: ['strict'] });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ error: { code: 'guardrail_tripped' } });
  });

  test('receives the agent, and its signal is aborted by a cancel', async () => {
    const { boot } = await openFixture();
    let context: GuardrailContext | undefined;
    const hanging: Guardrail = {
      name: 'hanging',
      check(_said, given) {
        context = given;
        return new Promise(() => undefined);
      },
    };
    const model = createScriptedModel([says('Hello.')]);
    const kernel = await boot({ model, agents: agentsWith({ output: [hanging] }) });
    const run = await ask(kernel);
    const [started] = await untilStored(kernel, run.id, { type: 'agent.started' });
    await until(async () => context !== undefined, 'the guardrail');
    expect(context).toMatchObject({ runId: run.id, agentId: started?.agentId, agent: 'assistant' });
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(context?.signal.aborted).toBe(true);
    expect(endOf(events).status).toBe('canceled');
  });

  test.each(['input', 'output'] as const)(
    'on the %s that never answers does not outlive the time of the run',
    async (side) => {
      const { boot } = await openFixture();
      const clock = new ManualClock();
      let asked = 0;
      const hanging: Guardrail = {
        name: 'hanging',
        check() {
          asked += 1;
          return new Promise(() => undefined);
        },
      };
      const model = createScriptedModel([says('Unseen.')]);
      const agents = agentsWith({ [side]: [hanging] });
      const kernel = await boot({ model, agents, clock });
      const run = await ask(kernel, { limits: { timeMs: 10_000 } });
      await until(async () => asked === 1 && clock.sleepers >= 3, 'the guardrail');
      await clock.advance(10_000);
      await until(async () => asked === 2 && clock.sleepers >= 3, 'the last turn');
      await clock.advance(120_000);
      const events = await finished(kernel, run.id);
      // Nobody has looked at what it said: so it has said nothing.
      expect(endOf(events)).toMatchObject({ status: 'completed', output: '' });
      expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'limit' }]);
      expect(ofType(events, 'turn.discarded').map(({ reason }) => reason)).toEqual(
        side === 'input' ? [] : ['limit', 'limit'],
      );
    },
  );

  test('checks again after a crash', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const process = mortal(store);
    let asked = false;
    const hanging: Guardrail = {
      name: 'hanging',
      check() {
        asked = true;
        return new Promise(() => undefined);
      },
    };
    const model = createScriptedModel([says('A secret.')]);
    const agents = agentsWith({ output: [hanging] });
    const doomed = await bootWithoutCleanup({ store: process.store, model, agents });
    const run = await ask(doomed);
    await until(async () => asked, 'the guardrail');
    process.kill();
    const strict = agentsWith({ output: [no('secret')] });
    const kernel = await boot({ model, agents: strict, restarted: true });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'failed', output: '' });
    expect(model.requests).toHaveLength(2);
  });
});
