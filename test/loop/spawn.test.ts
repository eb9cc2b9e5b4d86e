/** `ctx.spawn`: a tool that lets sub-agents work for it. */
import type { AgentReport, Task } from '@relay/core';
import { createRecordingTool, finish, toolCall } from '@relay/core/testing';
import { RelayError } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import { agentFor, createScriptedAgents, resultOf, says } from './scripted-agents.ts';
import { decide, endOf, finished, journal, ofType, openFixture, untilStored } from './fixture.ts';
import { createSpawningTool, outputs, teamCall } from './spawning-tool.ts';

const done = says('Done.');

describe('a tool that spawns', () => {
  test('gets the report of its agent', async () => {
    const { boot } = await openFixture();
    let report: AgentReport | undefined;
    const tool = createSpawningTool(async ({ spawn }) => {
      report = await spawn({ prompt: 'x', instructions: 'Be x.', tools: [], maxIterations: 2 });
      return { context: report.output };
    });
    const model = createScriptedAgents({ Begin: [[teamCall, finish()], done], x: [says('X.')] });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(report).toEqual({
      agentId: agentFor(events, 'x').agentId,
      agent: 'agent',
      reason: 'completed',
      output: 'X.',
      usage: { inputTokens: 3, outputTokens: 2 },
    });
    expect(agentFor(events, 'x').spawned).toEqual({
      toolCallId: 'call_1',
      nth: 1,
      task: 'x',
      tools: [],
      system: 'Be x.',
      maxIterations: 2,
    });
    expect(resultOf(events, 'call_1')).toMatchObject({ type: 'tool.completed', context: 'X.' });
    expect(ofType(events, 'tool.started')[0]?.via).toBeUndefined();
  });

  test('lets several work one after the other', async () => {
    const { boot } = await openFixture();
    const tool = createSpawningTool(async ({ spawn }) => {
      const first = await spawn({ prompt: 'x' });
      const second = await spawn({ prompt: `after ${first.output}` });
      return outputs([first, second]);
    });
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [says('X')],
      'after X': [says('Y')],
    });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'X Y' });
    expect(ofType(events, 'agent.started').map(({ spawned }) => spawned?.nth)).toEqual([
      undefined,
      1,
      2,
    ]);
  });

  test('lets several work side by side', async () => {
    const { boot } = await openFixture();
    const hold = Promise.withResolvers<void>();
    const tool = createSpawningTool(async ({ spawn }) =>
      outputs(await Promise.all(['x', 'y', 'z'].map((prompt) => spawn({ prompt })))),
    );
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [() => hold.promise.then(() => says('X'))],
      y: [says('Y')],
      z: [says('Z')],
    });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'agent.ended', count: 2 });
    hold.resolve();
    expect(resultOf(await finished(kernel, run.id), 'call_1')).toMatchObject({ context: 'X Y Z' });
  });

  test('receives the error of an agent that failed, and may continue', async () => {
    const { boot } = await openFixture();
    const tool = createSpawningTool(async ({ spawn }) => {
      const { reason, error } = await spawn({ prompt: 'nobody plays this' });
      return { context: `${reason}: ${error?.code}` };
    });
    const model = createScriptedAgents({ Begin: [[teamCall, finish()], done] });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'failed: provider_rejected' });
    expect(endOf(events).status).toBe('completed');
  });

  test('whose agent needs an approval waits in memory, and continues with the decision', async () => {
    const { boot } = await openFixture();
    const pay = createRecordingTool({ name: 'pay' });
    const tool = createSpawningTool(async ({ spawn }) => outputs([await spawn({ prompt: 'x' })]));
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [[toolCall('call_2', 'pay', {}), finish()], says('Paid.')],
    });
    const kernel = await boot({ model, tools: [tool, pay] });
    const run = await ask(kernel);
    const [approval] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    expect(approval?.agentPath).toEqual(['assistant', 'agent']);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'Paid.' });
    expect(tool.executions).toHaveLength(1);
  });

  test('may be a tool of a sub-agent that was itself spawned', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({
      name: 'team',
      allowedByDefault: true,
      execute: async (input, { spawn }) =>
        outputs([await spawn({ prompt: (input as { prompt: string }).prompt })]),
    });
    const nested = (id: string, prompt: string) => toolCall(id, 'team', { prompt });
    const model = createScriptedAgents({
      Begin: [[nested('a', 'x'), finish()], done],
      x: [[nested('b', 'y'), finish()], says('X.')],
      y: [[nested('c', 'z'), finish()], says('Y.')],
      z: [says('Z.')],
    });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(['c', 'b', 'a'].map((id) => resultOf(events, id))).toMatchObject([
      { context: 'Z.' },
      { context: 'Y.' },
      { context: 'X.' },
    ]);
  });
});

describe('a spawn that cannot be', () => {
  const refusals: [string, Task, string, string][] = [
    ['an unknown agent', { prompt: 'x', agent: 'nobody' }, 'invalid_request', 'nobody'],
    ['an unknown model', { prompt: 'x', model: 'gone' }, 'invalid_request', 'gone'],
    ['no task', {} as Task, 'invalid_request', 'malformed'],
    ['half a turn', { prompt: 'x', maxIterations: 0.5 }, 'invalid_request', 'malformed'],
  ];

  test.each(refusals)('for %s is refused inside the tool', async (...given) => {
    const [, task, code, words] = given;
    const { boot } = await openFixture();
    let refusal: unknown;
    const tool = createSpawningTool(async ({ spawn }) => {
      refusal = await spawn(task).catch((error: unknown) => error);
      return { context: 'went on' };
    });
    const model = createScriptedAgents({ Begin: [[teamCall, finish()], done] });
    const kernel = await boot({ model, models: {}, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(refusal).toBeInstanceOf(RelayError);
    expect(refusal).toMatchObject({ code, message: expect.stringContaining(words) as unknown });
    expect(ofType(events, 'agent.started')).toHaveLength(1);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'went on' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('for a limit is refused inside the tool, and its agent has its last turn', async () => {
    const { boot } = await openFixture();
    const codes: unknown[] = [];
    const tool = createSpawningTool(async ({ spawn }) => {
      const work = await Promise.allSettled(['x', 'y', 'z'].map((prompt) => spawn({ prompt })));
      for (const each of work) {
        codes.push(each.status === 'fulfilled' ? each.value.output : each.reason.code);
      }
      return { context: 'went on' };
    });
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [says('X')],
      y: [says('Y')],
    });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { limits: { subAgents: 2 } });
    const events = await finished(kernel, run.id);
    expect(codes).toEqual(['X', 'Y', 'limit_reached']);
    expect(ofType(events, 'limit.reached')).toMatchObject([{ limit: 'subAgents' }]);
    expect(model.requestsFor('Begin').at(-1)?.tools).toEqual([]);
    expect(ofType(events, 'agent.ended').at(-1)).toMatchObject({ reason: 'limit' });
  });

  test('causes no unhandled rejection if the tool ignores it', async () => {
    const { boot } = await openFixture();
    const tool = createSpawningTool(({ spawn }) => {
      void spawn({ prompt: 'x', agent: 'nobody' });
      void spawn(undefined as unknown as Task);
      return { context: 'did not look' };
    });
    const model = createScriptedAgents({ Begin: [[teamCall, finish()], done] });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'did not look' });
  });

  test('because the tool is over is refused, also when the run is over', async () => {
    const { boot } = await openFixture();
    let late: (() => Promise<AgentReport>) | undefined;
    const tool = createSpawningTool(({ spawn }) => {
      late = () => spawn({ prompt: 'x' });
      return { context: 'over' };
    });
    const hold = Promise.withResolvers<void>();
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], () => hold.promise.then(() => done)],
      x: [says('X')],
    });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    await expect(late?.()).rejects.toMatchObject({ code: 'tool_failed' });
    hold.resolve();
    const events = await finished(kernel, run.id);
    await expect(late?.()).rejects.toMatchObject({ code: 'tool_failed' });
    expect(await journal(kernel, run.id)).toEqual(events);
    expect(model.requestsFor('x')).toEqual([]);
  });
});
