/** The tools of native sessions: they act as the session, and once per call. */
import type { ActionRecord, Tool } from '@relay/core';
import { finish, text, toolCall } from '@relay/core/testing';
import { textOf } from '@relay/protocol';
import { sessionTools } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { newAction } from '../../packages/store/test/contract/sessions/fixtures.ts';
import { ask, type Kernel, until } from '../support/kernel.ts';
import { createStreamingModel, finished, lastOf, openFixture } from './fixture.ts';
import {
  deliver,
  eventsOfType,
  openSession,
  sessionEvents,
  storeOf,
  untilIdle,
} from './sessions.ts';
import { mortal } from './stores.ts';

const answer = [text('Done.'), finish()];

/** Calls a tool in the first turn, and ends without a reply that others would answer. */
const calling = (name: string, input: object) =>
  createStreamingModel(
    () => [[toolCall('call_1', name, input), finish()]],
    () => [[finish()]],
  );

async function setUp(name: string, input: object, permissions: object = {}) {
  const { boot } = await openFixture();
  const model = calling(name, input);
  const kernel = await boot({ model, tools: sessionTools, sessions: true });
  const { id } = await openSession(kernel, { permissions });
  const bob = await openSession(kernel, { handle: 'bob', model: 'silent' });
  return { kernel, model, id, bob };
}

async function messagesOf(kernel: Kernel, id: string) {
  const sent = eventsOfType(await sessionEvents(kernel, id), 'message.sent');
  return Promise.all(sent.map(({ messageId }) => storeOf(kernel).messages.read(messageId)));
}

async function failureOf(kernel: Kernel, id: string): Promise<string | undefined> {
  await untilIdle(kernel, id);
  return eventsOfType(await sessionEvents(kernel, id), 'tool.failed')[0]?.error;
}

describe('send_message', () => {
  test('sends as the session, with the hops of what the turn has read', async () => {
    const { kernel, id } = await setUp('send_message', { to: '@bob', text: 'Hello' });
    await deliver(kernel, id, { text: 'Ask bob' });
    await untilIdle(kernel, id);
    expect(await messagesOf(kernel, id)).toMatchObject([
      { from: { type: 'session', id, name: 'ada' }, to: ['@bob'], text: 'Hello', hops: 1 },
    ]);
    const [done] = eventsOfType(await sessionEvents(kernel, id), 'tool.completed');
    expect(done?.output).toMatchObject({ recipients: [{ handle: 'bob', status: 'accepted' }] });
  });

  test('sends once, although the process dies before the result is stored', async () => {
    const { store, boot, bootWithoutCleanup } = await openFixture();
    const first = mortal(store);
    const model = calling('send_message', { to: '@bob', text: 'Hello' });
    const dyingTools = sessionTools.map((tool): Tool => ({
      ...tool,
      async execute(input, context) {
        await tool.execute(input, context);
        first.kill();
        return new Promise(() => undefined);
      },
    }));
    const dying = await bootWithoutCleanup({
      model,
      store: first.store,
      tools: dyingTools,
      sessions: true,
    });
    const { id } = await openSession(dying);
    const sender = await boot({ model, store });
    const bob = await openSession(sender, { handle: 'bob', model: 'silent' });
    await deliver(dying, id, { text: 'Ask bob' });
    const inbox = { after: 0, limit: 9 };
    await until(async () => (await messagesOf(sender, id)).length === 1);
    const kernel = await boot({ model, tools: sessionTools, sessions: true, restarted: true });
    await untilIdle(kernel, id);
    expect(await messagesOf(kernel, id)).toHaveLength(1);
    expect(eventsOfType(await sessionEvents(kernel, id), 'tool.completed')).toHaveLength(1);
    const accepted = eventsOfType(await sessionEvents(kernel, bob.id), 'delivery.accepted');
    expect(accepted).toHaveLength(1);
    expect(await storeOf(kernel).messages.inbox(id, inbox)).toEqual([]);
  });

  test('tells the model which capability is missing', async () => {
    const input = { to: '@bob', text: 'Hello', mode: 'immediate' };
    const { kernel, id, bob } = await setUp('send_message', input);
    const { sessions } = storeOf(kernel);
    const { version, capabilities } = bob;
    const delivery = { modes: ['on-idle' as const], queue: true };
    const redefine = { capabilities: { ...capabilities, delivery } };
    const change = { sessionId: bob.id, at: 0, ifVersion: version, events: [], redefine };
    expect((await sessions.change({ changes: [change] })).kind).toBe('committed');
    await deliver(kernel, id, { text: 'Ask bob' });
    expect(await failureOf(kernel, id)).toContain(
      '(path: delivery.modes, asked: "immediate", offered: ["on-idle"])',
    );
  });

  test('is denied by a rule, although it is allowed by default', async () => {
    const denylist = [{ tool: 'send_message' }];
    const { kernel, id } = await setUp('send_message', { to: '@bob', text: 'Hi' }, { denylist });
    await deliver(kernel, id, { text: 'Ask bob' });
    expect(await failureOf(kernel, id)).toMatch(/denied/);
    expect(await messagesOf(kernel, id)).toEqual([]);
  });

  test('reports an unknown handle to the model', async () => {
    const { kernel, id } = await setUp('send_message', { to: '@nobody', text: 'Hello' });
    await deliver(kernel, id, { text: 'Ask' });
    expect(await failureOf(kernel, id)).toBe('No such session: @nobody');
  });

  test('counts hops, whatever it replies to: agents that write to each other come to an end', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel((request) => {
      const isSent = request.messages.at(-1)?.role === 'tool';
      if (isSent) return [[finish()]];
      const calls = request.messages.filter(({ role }) => role === 'tool').length;
      const other = textOf(request.messages[0]?.content ?? '').includes('ada') ? '@bob' : '@ada';
      return [[toolCall(`call_${calls}`, 'send_message', { to: other, text: 'Hi' }), finish()]];
    });
    const agents = ['ada', 'bob'].map((name) => ({ name, instructions: `You are ${name}` }));
    const kernel = await boot({ model, agents, tools: sessionTools, sessions: true });
    const ada = await openSession(kernel, { agent: 'ada' });
    const bob = await openSession(kernel, { handle: 'bob', agent: 'bob' });
    await deliver(kernel, ada.id, { text: 'Begin' });
    const failed = await until(async () => {
      const events = [ada.id, bob.id].map((id) => sessionEvents(kernel, id));
      const [failure] = eventsOfType((await Promise.all(events)).flat(), 'delivery.failed');
      return failure;
    });
    expect(failed.reason).toBe('loop_limit');
    for (const { id } of [ada, bob]) await untilIdle(kernel, id);
    const [hers, his] = [await messagesOf(kernel, ada.id), await messagesOf(kernel, bob.id)];
    expect([hers.length, his.length]).toEqual([9, 8]);
    expect(
      [...hers, ...his].map((message) => message?.hops).toSorted((a, b) => (a ?? 0) - (b ?? 0)),
    ).toEqual(Array.from({ length: 17 }, (_, n) => n + 1));
  });
});

describe('invoke_action', () => {
  const offer = (kernel: Kernel, over: Partial<ActionRecord> = {}) =>
    storeOf(kernel).actions.add(newAction({ availableTo: null, ...over }));

  test('invokes the action as the session', async () => {
    const input = { name: 'deploy', input: { where: 'here' } };
    const { kernel, id } = await setUp('invoke_action', input);
    await offer(kernel);
    await deliver(kernel, id, { text: 'Deploy' });
    await untilIdle(kernel, id);
    const [invoked] = eventsOfType(await sessionEvents(kernel, id), 'action.invoked');
    const invocation = await storeOf(kernel).actions.readInvocation(invoked?.invocationId ?? '');
    expect(invocation).toMatchObject({
      action: 'deploy',
      by: { type: 'session', id, name: 'ada' },
      input: { where: 'here' },
    });
    const [done] = eventsOfType(await sessionEvents(kernel, id), 'tool.completed');
    expect(done?.output).toEqual({ id: invocation?.id, status: 'running' });
  });

  test('reports a denial to the model', async () => {
    const { kernel, id } = await setUp('invoke_action', { name: 'deploy', input: {} });
    await offer(kernel, { availableTo: [{ handle: 'bob' }] });
    await deliver(kernel, id, { text: 'Deploy' });
    expect(await failureOf(kernel, id)).toBe('The action deploy is not available to @ada');
  });
});

test('list_sessions shows who can be written to, and names that do not mislead', async () => {
  const { kernel, id, bob } = await setUp('list_sessions', {});
  const misleading = { sessionId: bob.id, at: 1, events: [], ifVersion: bob.version };
  const redefine = { name: 'Bob\u202egnp' };
  await storeOf(kernel).sessions.change({ changes: [{ ...misleading, redefine }] });
  await deliver(kernel, id, { text: 'Who is there?' });
  await untilIdle(kernel, id);
  const [done] = eventsOfType(await sessionEvents(kernel, id), 'tool.completed');
  expect(done?.output).toEqual({
    sessions: [
      { handle: 'bob', name: 'Bob\\u{202e}gnp', kind: 'agent', status: 'idle' },
      { handle: 'ada', name: expect.any(String), kind: 'agent', status: 'active', isYou: true },
    ],
  });
});

test('the tools of sessions are offered in turns, whatever tools the agent names, and nowhere else', async () => {
  const { boot } = await openFixture();
  const model = createStreamingModel(() => [answer]);
  const agents = [{ name: 'ada', tools: [] }];
  const kernel = await boot({ model, agents, tools: sessionTools, sessions: true });
  const { id } = await openSession(kernel, { agent: 'ada' });
  await deliver(kernel, id, { text: 'Hello' });
  await untilIdle(kernel, id);
  const offered = () => lastOf(model.requests).tools.map(({ name }) => name);
  expect(offered()).toEqual(['send_message', 'list_sessions', 'invoke_action']);
  const run = await ask(kernel);
  await finished(kernel, run.id);
  expect(offered()).toEqual([]);
});
