/** Answers of a given shape, and what a provider wants to see again with the next turn. */
import type { ModelEvent } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { type ProviderData, textOf } from '@relay/protocol';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import { createScriptedAgents, delegate, endFor, says } from './scripted-agents.ts';
import { endOf, finished, lastOf, ofType, openFixture } from './fixture.ts';

const outputSchema = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};
const good = '{"city":"Rome"}';

describe('an answer with an output schema', () => {
  test('counts as it is, and the model knows what is wanted', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([says(good)]);
    const kernel = await boot({ model });
    const run = await ask(kernel, { outputSchema, reasoning: 'high' });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: good });
    expect(model.requests).toMatchObject([{ outputSchema, reasoning: 'high' }]);
  });

  test('is taken back if it has another, and asked for once more with the reason', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([
      ({ messages }) => says(messages.length === 1 ? '{"town":1}' : good),
    ]);
    const kernel = await boot({ model });
    const run = await ask(kernel, { outputSchema });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: good });
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { reason: 'schema', code: 'output_invalid', usage: { inputTokens: 3, outputTokens: 2 } },
    ]);
    expect(endOf(events).usage).toEqual({ inputTokens: 6, outputTokens: 4 });
    expect(lastOf(model.requests).messages.slice(1)).toEqual([
      { role: 'assistant', content: '{"town":1}' },
      { role: 'user', content: expect.stringContaining('city: Required') as string },
    ]);
  });

  test('that is wrong twice fails the run, and the correction is not part of the conversation', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([says('Rome')]);
    const kernel = await boot({ model });
    const run = await ask(kernel, { outputSchema });
    const events = await finished(kernel, run.id);
    const message = 'The answer does not match the output schema: Not valid JSON';
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      output: '',
      error: { code: 'output_invalid', message, retryable: false },
      usage: { inputTokens: 6, outputTokens: 4 },
    });
    const next = await ask(kernel, { conversationId: run.conversationId });
    await finished(kernel, next.id);
    expect(lastOf(model.requests).messages).toEqual([
      { role: 'user', content: 'Begin' },
      { role: 'user', content: 'Begin' },
    ]);
  });

  test('is not asked of turns that call tools', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createScriptedModel([
      [text('I look.'), toolCall('a', 'look'), finish()],
      says(good),
    ]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel, { outputSchema });
    expect(endOf(await finished(kernel, run.id))).toMatchObject({ status: 'completed' });
  });

  test('is still required after a handoff to an agent without an output schema', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([
      ({ messages }) =>
        messages.length === 1
          ? [toolCall('a', 'handoff', { agent: 'other' }), finish()]
          : says(good),
      says('Rome'),
    ]);
    const kernel = await boot({ model, agents: [{ name: 'other' }] });
    const run = await ask(kernel, { outputSchema, handoffs: ['other'], reasoning: 'low' });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.switched')).toMatchObject([{ outputSchema, reasoning: 'low' }]);
    expect(ofType(events, 'turn.discarded')).toMatchObject([{ reason: 'schema' }]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: good });
  });

  test('can be a sub-agent’s, whose call fails if it is wrong', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'Find', 'finder'), finish()], says('Well.')],
      Find: [says('Rome'), says('Rome')],
    });
    const agents = [{ name: 'finder', outputSchema }];
    const kernel = await boot({
      model: {
        // What the finder is told about its answer is still its task.
        stream: (request, signal) => {
          const messages = request.messages.filter(
            ({ role, content }) => role !== 'user' || !textOf(content).startsWith('Your answer'),
          );
          return model.stream({ ...request, messages }, signal);
        },
      },
      agents,
      tools: [agentTool],
    });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Well.' });
    expect(endFor(events, 'Find')).toMatchObject({
      reason: 'failed',
      error: { code: 'output_invalid' },
    });
  });
});

describe('what a provider attached to an answer', () => {
  const providerData: ProviderData = {
    provider: 'acme',
    model: 'scripted',
    parts: [
      { type: 'reasoning', text: 'Hm', metadata: { acme: { signature: 's' } } },
      { type: 'call', nth: 0 },
    ],
  };
  const marked: ModelEvent = { ...finish(), providerData } as ModelEvent;

  test('is shown to it again, in this run and in the next of the conversation', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createScriptedModel([
      [toolCall('a', 'look'), marked],
      [text('Blue.'), marked],
    ]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'turn.completed')).toMatchObject([{ providerData }, { providerData }]);
    expect(model.requests[1]?.messages[1]).toMatchObject({ role: 'assistant', providerData });
    const next = await ask(kernel, { conversationId: run.conversationId });
    await finished(kernel, next.id);
    const answers = lastOf(model.requests).messages.filter(({ role }) => role === 'assistant');
    expect(answers.slice(0, 2)).toMatchObject([
      { providerData },
      { content: 'Blue.', providerData },
    ]);
  });
});
