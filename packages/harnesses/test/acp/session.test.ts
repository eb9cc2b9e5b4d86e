/** Sessions over ACP with the scripted agent, without a server. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ToolCallUpdate } from '@agentclientprotocol/sdk';
import { afterEach, describe, expect, it } from 'vitest';
import { script } from './scripted-agent.ts';
import { type FixtureOptions, SessionFixture, until } from './session-fixture.ts';

const open: SessionFixture[] = [];

async function start(options: FixtureOptions = {}): Promise<SessionFixture> {
  const fixture = await SessionFixture.open(options);
  open.push(fixture);
  return fixture;
}

afterEach(async () => {
  for (const fixture of open.splice(0)) await fixture.stop();
});

const consumed = { status: 'consumed', fidelity: 'inferred' };
const allowed = (input: unknown) => ({ allowed: true, input }) as const;
const denied = (reason: string) => ({ allowed: false, reason, by: 'person' }) as const;

describe('a session over ACP', () => {
  it('prompts the agent with the sender and the unchanged text, and reports the answer', async () => {
    const it = await start({ tokens: 110 });
    const delivery = it.send('How are you?');
    expect(await it.settled(delivery)).toEqual(consumed);
    await it.isStatus('idle');
    expect(it.receiptsOf(delivery)).toEqual([
      { status: 'delivered', fidelity: 'inferred' },
      consumed,
    ]);
    const [prompt] = it.logged('prompt');
    expect(prompt?.['text']).toMatch(
      /^The next message \(id "m001"\) was sent directly to you by "ada"\. .*It ends with the line "end of message (\w+)"\.\nHow are you\?\nend of message \1$/,
    );
    expect(it.transcript).toBe('read: How are you?');
    expect(it.replies).toEqual([{ text: 'read: How are you?', messageIds: ['m001'] }]);
    expect(it.eventsOf('usage.updated')).toMatchObject([{ tokens: 110 }]);
    expect(it.eventsOf('status.changed').map(({ status }) => status)).toEqual([
      'idle',
      'active',
      'idle',
    ]);
  });

  it('makes one turn of the messages that wait for it, in their order', async () => {
    const it = await start();
    const gate = join(it.workspace, 'gate');
    const first = it.send(script({ say: 'working' }, { until: gate }));
    await until(() => it.transcript !== '', 'the first turn');
    const others = [it.send('one'), it.send('two', 'on-idle')];
    writeFileSync(gate, '');
    for (const delivery of [first, ...others]) await it.settled(delivery);
    const texts = it.logged('prompt').map(({ text }) => String(text));
    expect(texts).toHaveLength(2);
    expect(texts[1]).toMatch(/\none\nend of message [^]*\ntwo\nend of message /);
    expect(it.replies.at(-1)?.messageIds).toEqual(['m002', 'm003']);
  });

  it('sends attachments, and the agent its own MCP server with the session token', async () => {
    const it = await start({ image: true, mcp: true });
    const image = { type: 'image', mediaType: 'image/png', data: 'aGk=' } as const;
    await it.settled(it.send('look', 'on-idle', { attachments: [image] }));
    expect(it.logged('prompt')[0]?.['text']).toContain('look\n[image]\n');
    expect(it.logged('new')).toMatchObject([{ mcpServers: 1 }]);
    expect(it.session.capabilities.messaging.attachments).toEqual(['text', 'image']);
    expect(it.session.capabilities.actions).toEqual({ invoke: true });
  });

  it('knows each turn of an agent that gives its messages no ids', async () => {
    const it = await start();
    const say = (text: string) =>
      script({
        update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } },
      });
    for (const text of ['one', 'two']) {
      const delivery = it.send(say(text));
      await it.settled(delivery);
      expect(it.receiptsOf(delivery)).toMatchObject([{ status: 'delivered' }, consumed]);
    }
    expect(it.replies.map(({ text }) => text)).toEqual(['one', 'two']);
  });

  it('sends no prompt that was canceled before it', async () => {
    const it = await start();
    const { promise, resolve } = Promise.withResolvers<void>();
    it.saving = promise;
    const delivery = it.send('hello');
    await it.isStatus('active');
    const isCanceled = it.session.cancel?.();
    resolve();
    await isCanceled;
    expect(await it.settled(delivery)).toMatchObject({ status: 'failed', reason: 'turn canceled' });
    expect(it.logged('prompt')).toEqual([]);
  });

  it('fails the message and is idle again if the prompt fails', async () => {
    const it = await start();
    const delivery = it.send(script({ fail: 'no model' }));
    expect(await it.settled(delivery)).toMatchObject({ status: 'failed', retryable: true });
    await it.isStatus('idle');
    const [error] = it.eventsOf('error');
    expect(error).toMatchObject({
      code: 'turn_failed',
      error: expect.stringContaining('no model'),
    });
    expect(await it.settled(it.send('and now?'))).toEqual(consumed);
  });

  it('waits for the listener, so that a flood of updates stays with the agent', async () => {
    const it = await start();
    const { promise, resolve } = Promise.withResolvers<void>();
    const begin = join(it.workspace, 'begin');
    it.send(script({ until: begin }, { say: 'x'.repeat(4_096), times: 200 }));
    await it.isStatus('active');
    it.gate = promise;
    writeFileSync(begin, '');
    await until(() => it.eventsOf('transcript.chunk').length > 0, 'the first chunk');
    await new Promise((done) => setImmediate(done));
    expect(it.eventsOf('transcript.chunk').length).toBeLessThan(3);
    resolve();
    await it.isStatus('idle');
    expect(it.transcript).toHaveLength(200 * 4_096);
  });
});

describe('messages to an agent at work', () => {
  const working = (it: SessionFixture) =>
    script(
      { say: 'word ', id: 'long', times: 10_000, pauseMs: 5 },
      { say: 'finished', id: it.workspace },
    );

  it('enter a running call of the model by steering, if they are immediate', async () => {
    const it = await start({ steering: true });
    const first = it.send(working(it));
    await until(() => it.transcript.includes('word'), 'the answer');
    const second = it.send('stop that', 'immediate');
    expect(await it.settled(second)).toEqual(consumed);
    expect(await it.settled(first)).toEqual(consumed);
    expect(it.receiptsOf(second)).toEqual([{ status: 'delivered' }, consumed]);
    expect(it.logged('prompt')).toHaveLength(1);
    expect(it.logged('steer')).toHaveLength(1);
    expect(it.transcript).toContain('read: stop that');
  });

  it('cancel the turn and go on with the message where there is no steering', async () => {
    const it = await start();
    const first = it.send(working(it));
    await until(() => it.transcript.includes('word'), 'the answer');
    const later = it.send('later');
    const second = it.send('stop that', 'immediate');
    expect(await it.settled(second)).toEqual(consumed);
    expect(await it.settled(first)).toEqual(consumed);
    expect(await it.settled(later)).toEqual(consumed);
    expect(it.logged('cancel')).toHaveLength(1);
    const texts = it.logged('prompt').map(({ text }) => String(text));
    expect(texts.map((text) => [text.includes('stop that'), text.includes('\nlater\n')])).toEqual([
      [false, false],
      [true, false],
      [false, true],
    ]);
    // Between the two it was never idle.
    const statuses = it.eventsOf('status.changed').map(({ status }) => status);
    expect(statuses.slice(0, 4)).toEqual(['idle', 'active', 'active', 'idle']);
  });

  it.each([true, false])('wait for a tool and an approval (steering: %s)', async (steering) => {
    const it = await start({ steering });
    const gate = join(it.workspace, 'gate');
    const command = `touch started; while [ ! -e ${gate} ]; do sleep 0.01; done`;
    const first = it.send(script({ bash: command }, { say: 'word ', times: 10_000, pauseMs: 5 }));
    const request = await it.open();
    const second = it.send('now', 'immediate');
    await until(() => it.receiptsOf(second).length > 0, 'the deferral');
    expect(it.receiptsOf(second)).toMatchObject([{ status: 'deferred', reason: 'approval open' }]);
    request.answer(allowed(request.input));
    await until(() => existsSync(join(it.workspace, 'started')), 'the tool');
    const third = it.send('and this', 'immediate');
    await until(() => it.receiptsOf(third).length > 0, 'the deferral');
    expect(it.receiptsOf(third)).toMatchObject([{ status: 'deferred', reason: 'tool running' }]);
    expect([...it.logged('steer'), ...it.logged('cancel')]).toEqual([]);
    writeFileSync(gate, '');
    expect(await it.settled(second)).toEqual(consumed);
    expect(await it.settled(third)).toEqual(consumed);
    expect(await it.settled(first)).toEqual(consumed);
    expect(it.eventsOf('command.completed')).toHaveLength(1);
    expect(request.isClosed).toBe(false);
  });

  it('enter after the results of a tool with next-tool-call, and not before', async () => {
    const it = await start({ steering: true });
    const gates = ['one', 'two'].map((name) => join(it.workspace, name));
    const [one = '', two = ''] = gates;
    const first = it.send(
      script(
        { say: 'thinking' },
        { until: one },
        { bash: 'true', asks: false },
        { until: two },
        { say: 'end' },
      ),
    );
    await until(() => it.transcript.includes('thinking'), 'the answer');
    const second = it.send('beside', 'next-tool-call');
    writeFileSync(one, '');
    await until(() => it.logged('steer').length > 0, 'the message');
    const kinds = it.log.map(({ kind }) => kind);
    expect(kinds.indexOf('run')).toBeLessThan(kinds.indexOf('steer'));
    writeFileSync(two, '');
    expect(await it.settled(second)).toEqual(consumed);
    expect(await it.settled(first)).toEqual(consumed);
    expect(it.logged('prompt')).toHaveLength(1);
  });

  it('are sent again, marked, if the agent is lost before it says that it took them', async () => {
    const it = await start({ steering: true });
    it.send(script({ say: 'one' }, { until: '/nonexistent' }));
    await until(() => it.transcript === 'one', 'the first output');
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    it.gate = gate;
    // Nothing further of the agent is read before this is stored.
    const cost = { amount: 1, currency: 'USD' };
    it.notify({ sessionUpdate: 'usage_update', used: 1, size: 1, cost });
    await until(() => it.eventsOf('usage.updated').length > 0, 'the costs');
    it.send('two', 'immediate');
    await until(() => it.logged('steer').length > 0, 'the steered message');
    await it.kill();
    open();
    const again = await until(
      () => it.logged('prompt').find(({ text }) => String(text).includes('two')),
      'the prompt',
    );
    expect(String(again['text']).match(/It is sent again/g)).toHaveLength(2);
  });

  it('enter when the turn is over with next-tool-call, if it had no tool call', async () => {
    const it = await start({ steering: true });
    const gate = join(it.workspace, 'gate');
    it.send(script({ say: 'thinking' }, { until: gate }));
    await until(() => it.transcript.includes('thinking'), 'the answer');
    const second = it.send('beside', 'next-tool-call');
    writeFileSync(gate, '');
    expect(await it.settled(second)).toEqual(consumed);
    expect([it.logged('steer'), it.logged('prompt')]).toMatchObject([[], [{}, {}]]);
  });

  it('fail if their turn is canceled before the agent has answered, and the session stays', async () => {
    const it = await start();
    const delivery = it.send(script({ until: '/nonexistent' }));
    await until(() => it.logged('prompt').length > 0, 'the prompt');
    await it.session.cancel?.();
    expect(await it.settled(delivery)).toEqual({
      status: 'failed',
      reason: 'turn canceled',
      retryable: true,
    });
    expect(await it.settled(it.send('again'))).toEqual(consumed);
    expect(it.replies).toHaveLength(1);
  });
});

describe('an agent that is lost', () => {
  it('is resumed, and gets the message of its turn again, marked', async () => {
    const it = await start();
    await it.settled(it.send('hello'));
    const gate = join(it.workspace, 'gate');
    const delivery = it.send(script({ say: 'begun' }, { until: gate }));
    await until(() => it.transcript.includes('begun'), 'the turn');
    await it.kill();
    writeFileSync(gate, '');
    expect(await it.settled(delivery)).toEqual(consumed);
    const prompts = it
      .logged('prompt')
      .map(({ text }) => String(text).includes('It is sent again'));
    expect(prompts).toEqual([false, false, true]);
    expect(it.logged('resume')).toHaveLength(1);
    expect(it.eventsOf('error')).toMatchObject([{ code: 'agent_lost', retryable: true }]);
    expect(it.receiptsOf(delivery).filter(({ status }) => status === 'consumed')).toHaveLength(1);
  });

  it('closes its requests for permission, which are never denied', async () => {
    const it = await start();
    await it.settled(it.send('hello'));
    it.send(script({ bash: 'touch x' }));
    const request = await it.open();
    await it.kill();
    await until(() => request.isClosed, 'the closed request');
    const second = await it.open(2);
    second.answer(allowed(second.input));
    await until(() => existsSync(join(it.workspace, 'x')), 'the command');
    expect(it.logged('run')).toHaveLength(1);
  });

  it('does not get a message for ever that it dies of', async () => {
    const it = await start();
    await it.settled(it.send('hello'));
    const delivery = it.send(script({ say: 'begun', times: 100_000, pauseMs: 5 }));
    for (let count = 1; count <= 3; count += 1) {
      await until(() => it.logged('prompt').length === 1 + count, 'the prompt');
      await it.kill();
    }
    expect(await it.settled(delivery)).toMatchObject({ status: 'failed', retryable: true });
    await it.isStatus('idle');
    expect(await it.settled(it.send('next'))).toEqual(consumed);
  });

  it('is attached after a restart with session/load, without repeating what was reported', async () => {
    const before = await start({ resume: false, load: true });
    await before.settled(before.send('hello'));
    const state = before.saved.at(-1);
    await before.stop();
    const { conversations } = before;
    const after = await start({ resume: false, load: true, conversations, state });
    expect(after.logged('load')).toHaveLength(1);
    expect(after.events).toMatchObject([{ type: 'status.changed', status: 'idle' }]);
    await after.settled(after.send('more'));
    expect(after.logged('prompt')).toMatchObject([{ history: 2 }]);
  });

  it('begins a new conversation, and says so, if it cannot resume', async () => {
    const options = { resume: false };
    const before = await start(options);
    await before.settled(before.send('hello'));
    const after = await start({ ...options, state: before.saved.at(-1) });
    expect(after.eventsOf('error')).toMatchObject([{ code: 'conversation_lost' }]);
    await after.settled(after.send('more'));
    expect(after.logged('prompt')).toMatchObject([{ history: 1 }]);
  });

  it('begins anew without an error if nothing was said before', async () => {
    const before = await start();
    const after = await start({ state: before.saved.at(-1) });
    expect(after.events).toMatchObject([{ type: 'status.changed', status: 'idle' }]);
  });
});

describe('a request for permission', () => {
  const asks = (
    toolCall: ToolCallUpdate,
    options?: { optionId: string; kind: 'allow_always'; name: string }[],
  ) => script(options === undefined ? { ask: toolCall } : { ask: toolCall, options });

  it('is one approval of the normalised call, and is answered with the option for once', async () => {
    const it = await start();
    const delivery = it.send(script({ bash: 'touch x', cwd: it.workspace }));
    const request = await it.open();
    expect(request).toMatchObject({
      tool: 'bash',
      input: { command: 'touch x' },
      isConcrete: true,
      isEditable: false,
      shown: { description: expect.any(String) as string },
    });
    expect(it.eventsOf('command.started')).toEqual([]);
    request.answer(allowed(request.input));
    await it.settled(delivery);
    expect(existsSync(join(it.workspace, 'x'))).toBe(true);
    expect(
      it.events.map(({ type }) => type).filter((type) => /^(tool|command)/.test(type)),
    ).toEqual(['tool.called', 'command.started', 'command.completed', 'tool.completed']);
  });

  it('has the diff that was announced before it, and reports the changed file', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    await it.settled(it.send(script({ write: 'a.txt', content: 'one\n' })));
    expect(it.asked[0]).toMatchObject({
      tool: 'patch',
      input: { filePath: 'a.txt', diff: '--- /dev/null\n+++ a.txt\n@@ -0,0 +1,1 @@\n+one' },
    });
    expect(readFileSync(join(it.workspace, 'a.txt'), 'utf8')).toBe('one\n');
    expect(it.eventsOf('file.changed')).toMatchObject([{ path: 'a.txt', operation: 'create' }]);
  });

  it('asks for every file of a change, and is denied if one of them is', async () => {
    const it = await start({
      permit: ({ input }) =>
        (input as { filePath: string }).filePath === 'secret' ? denied('not that') : allowed(input),
    });
    const changes = ['a', 'secret'].map((name) => ({
      type: 'diff' as const,
      path: join(it.workspace, name),
      oldText: null,
      newText: 'x',
    }));
    await it.settled(it.send(asks({ toolCallId: 't', kind: 'edit', content: changes })));
    expect(it.asked.map(({ input }) => (input as { filePath: string }).filePath)).toEqual([
      'a',
      'secret',
    ]);
    expect(it.logged('asked')).toMatchObject([{ outcome: 'no' }]);
  });

  it.each([
    ['by steering, where the turn goes on', { steering: true }, 1, 1],
    ['with the next message, where it does not', { denied: 'end' as const }, 0, 2],
    [
      'with the next message, where the agent cancels',
      { denied: 'cancel' as const, steering: true },
      0,
      2,
    ],
  ])('that is denied tells the agent why %s', async (_how, options, steers, prompts) => {
    const it = await start({ ...options, permit: () => denied('Use the other one') });
    const gate = join(it.workspace, 'gate');
    writeFileSync(gate, '');
    expect(
      await it.settled(
        it.send(script({ bash: 'touch x' }, { say: 'so be it', times: 20, pauseMs: 5 })),
      ),
    ).toEqual(consumed);
    await it.isStatus('idle');
    // It starts no turn of its own.
    expect(it.logged('prompt')).toHaveLength(1);
    expect(it.logged('steer')).toHaveLength(steers);
    await it.settled(it.send('next'));
    const told = [...it.logged('steer'), ...it.logged('prompt').slice(1)].map(({ text }) =>
      String(text),
    );
    expect(told.filter((text) => text.includes('Use the other one'))).toHaveLength(1);
    expect(it.logged('prompt')).toHaveLength(2);
    expect(prompts).toBeGreaterThan(0);
    expect(existsSync(join(it.workspace, 'x'))).toBe(false);
    expect(it.eventsOf('command.started')).toEqual([]);
  });

  it('is refused with an error if the agent offers no way to allow it once', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    const call = { toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } } as const;
    await it.settled(
      it.send(asks(call, [{ optionId: 'always', kind: 'allow_always', name: 'Always' }])),
    );
    expect(it.logged('asked')).toMatchObject([{ outcome: 'cancelled' }]);
    expect(it.asked).toEqual([]);
    expect(it.eventsOf('error')).toMatchObject([{ code: 'request_refused' }]);
  });

  it.each(['command', 'description'])(
    'is refused if its %s is too large to be shown',
    async (name) => {
      const it = await start({ permit: ({ input }) => allowed(input) });
      const rawInput = { command: 'ls', [name]: 'x'.repeat(1_000_001) };
      await it.settled(it.send(asks({ toolCallId: 't', kind: 'execute', rawInput })));
      expect(it.asked).toEqual([]);
      expect(it.eventsOf('error')).toMatchObject([{ code: 'request_refused' }]);
    },
  );

  it('says in few words how the call has changed', async () => {
    const it = await start();
    it.send(asks({ toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } }));
    await it.open();
    const rawInput = { command: 'x'.repeat(1_000_000) };
    it.notify({ sessionUpdate: 'tool_call_update', toolCallId: 't', rawInput });
    await until(() => it.eventsOf('error').length > 0, 'the error');
    expect(it.eventsOf('error')[0]?.error.length).toBeLessThan(3_000);
  });

  it('without arguments is not concrete, so that no rule allows it', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    await it.settled(it.send(asks({ toolCallId: 't', kind: 'execute', title: 'ls' })));
    expect(it.asked).toMatchObject([{ tool: 'bash', input: { command: 'ls' }, isConcrete: false }]);
  });

  it('is closed when the turn is canceled, and the call does not run', async () => {
    const it = await start();
    it.send(script({ bash: 'touch x' }));
    const request = await it.open();
    await it.session.cancel?.();
    expect(request.isClosed).toBe(true);
    await it.isStatus('idle');
    expect(it.logged('run')).toEqual([]);
    expect(it.logged('denied')).toMatchObject([{ outcome: 'cancelled' }]);
  });

  it('after the end of the turn is reported, asked, and closed by a cancellation', async () => {
    const it = await start();
    const call = { toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } } as const;
    await it.settled(it.send(script({ say: 'done' }, { later: call })));
    const request = await it.open();
    expect(it.eventsOf('log')).toMatchObject([{ level: 'warn' }]);
    await it.session.cancel?.();
    expect(request.isClosed).toBe(true);
    await until(() => it.logged('asked').length > 0, 'the answer');
    expect(it.logged('asked')).toMatchObject([{ outcome: 'cancelled' }]);
  });

  it('twice for the same tool call is two approvals', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    const call = { toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } } as const;
    const other = { ...call, rawInput: { command: 'rm x' } };
    await it.settled(it.send(script({ ask: call }, { ask: other })));
    expect(it.asked.map(({ input }) => input)).toEqual([{ command: 'ls' }, { command: 'rm x' }]);
    expect(it.eventsOf('error')).toEqual([]);
  });

  it('binds what was shown: the turn is cancelled if another command runs', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    await it.settled(it.send(script({ bash: 'ls', shows: 'touch x' })));
    expect(it.logged('cancel')).toHaveLength(1);
    expect(it.logged('run')).toEqual([]);
    const [error] = it.eventsOf('error');
    expect(error).toMatchObject({ code: 'call_breached' });
    expect(error?.error).toContain('the command "touch x" instead of "ls"');
  });

  it('that is denied and completed all the same ends the turn with an error', async () => {
    const it = await start({ permit: () => denied('no') });
    const call = { toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } } as const;
    const done = {
      sessionUpdate: 'tool_call_update',
      toolCallId: 't',
      status: 'completed',
    } as const;
    await it.settled(it.send(script({ ask: call }, { update: done }, { until: '/nonexistent' })));
    expect(it.logged('cancel')).toHaveLength(1);
    expect(it.eventsOf('error')[0]?.error).toContain('although it was denied');
  });

  it('that is completed before it is answered ends the turn with an error', async () => {
    const it = await start();
    const call = { toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } } as const;
    const delivery = it.send(script({ ask: call }, { until: '/nonexistent' }));
    await it.open();
    it.notify({ sessionUpdate: 'tool_call_update', toolCallId: 't', status: 'completed' });
    await it.settled(delivery);
    expect(it.logged('cancel')).toHaveLength(1);
    expect(it.eventsOf('error')).toMatchObject([{ code: 'call_breached' }]);
    expect(it.eventsOf('error')[0]?.error).toContain('although it was not allowed');
  });

  it('without a turn stops the agent if another command runs', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    const call = { toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } } as const;
    await it.settled(it.send(script({ later: call })));
    await until(() => it.logged('asked').length > 0, 'the answer');
    it.notify({
      sessionUpdate: 'tool_call_update',
      toolCallId: 't',
      status: 'in_progress',
      rawInput: { command: 'rm x' },
    });
    await until(() => it.logged('cancel').length > 0, 'the cancellation');
    expect(it.eventsOf('error')).toMatchObject([{ code: 'call_breached' }]);
  });

  it('is not for the call that a second request of the same id asks for meanwhile', async () => {
    const it = await start();
    const ask = (command: string) => ({
      toolCallId: 't',
      kind: 'execute' as const,
      rawInput: { command },
    });
    it.send(script({ later: ask('ls') }, { later: ask('rm x') }, { until: '/nonexistent' }));
    const first = await it.open();
    const second = await it.open(2);
    await until(() => first.isClosed, 'the closed request');
    expect(second).toMatchObject({ input: { command: 'rm x' }, isClosed: false });
    await until(() => it.logged('asked').length > 0, 'the answer');
    expect(it.logged('asked')).toMatchObject([{ outcome: 'no' }]);
    second.answer(allowed(second.input));
    await until(() => it.logged('asked').length > 1, 'the other answer');
    expect(it.logged('asked')[1]).toMatchObject({ outcome: 'once' });
  });

  it('is refused if the call changes before the request is stored', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    const { promise: stored, resolve: end } = Promise.withResolvers<void>();
    const isCall = () => it.events.at(-1)?.type === 'tool.called';
    Object.defineProperty(it, 'gate', { get: () => (isCall() ? stored : undefined) });
    const toolCallId = 't';
    it.send(script({ ask: { toolCallId, kind: 'execute', rawInput: { command: 'ls' } } }));
    await until(isCall, 'the report of the call');
    const rawInput = { command: 'rm x' };
    it.notify({ sessionUpdate: 'tool_call_update', toolCallId, rawInput });
    await until(() => it.eventsOf('error').length > 0, 'the change');
    end();
    await until(() => it.logged('asked').length > 0, 'the answer');
    expect(it.logged('asked')).toMatchObject([{ outcome: 'no' }]);
  });

  it('is closed if the call changes while it is open, and has to be asked again', async () => {
    const it = await start();
    const toolCallId = 'call';
    const rawInput = { command: 'rm x' };
    it.send(script({ ask: { toolCallId, kind: 'execute', rawInput: { command: 'ls' } } }));
    const request = await it.open();
    const changed = { sessionUpdate: 'tool_call_update', toolCallId, rawInput } as const;
    it.notify(changed);
    await until(() => request.isClosed, 'the closed request');
    await until(() => it.logged('asked').length > 0, 'the answer');
    expect(it.logged('asked')).toMatchObject([{ outcome: 'no' }]);
    expect(it.eventsOf('error')).toMatchObject([{ code: 'call_changed' }]);
  });

  it('has to be asked again if the approved call changes before it runs', async () => {
    const it = await start({ permit: ({ input }) => allowed(input) });
    const call = { toolCallId: 't', kind: 'execute', rawInput: { command: 'ls' } } as const;
    const rawInput = { command: 'touch x' };
    const pending = {
      sessionUpdate: 'tool_call_update',
      toolCallId: 't',
      status: 'pending',
      rawInput,
    } as const;
    const running = { ...pending, status: 'in_progress' } as const;
    await it.settled(
      it.send(
        script(
          { ask: call },
          { update: pending },
          { ask: { ...call, rawInput } },
          { update: running },
        ),
      ),
    );
    expect(it.logged('cancel')).toEqual([]);
    expect(it.asked).toHaveLength(2);
    await it.settled(
      it.send(
        script({ ask: call }, { update: pending }, { update: running }, { until: '/nonexistent' }),
      ),
    );
    expect(it.logged('cancel')).toHaveLength(1);
  });
});

describe('a question of the agent', () => {
  it('is asked with its form, and closed with its turn', async () => {
    const it = await start();
    const requestedSchema = { type: 'object', properties: { colour: { type: 'string' } } };
    it.send(script({ elicit: { message: 'Which colour?', requestedSchema } }));
    const question = await until(() => it.questions[0], 'the question');
    expect(question).toMatchObject({ message: 'Which colour?', schema: requestedSchema });
    question.answer({ action: 'accept', content: { colour: 'red' } });
    await until(() => it.logged('answered').length > 0, 'the answer');
    expect(it.logged('answered')).toMatchObject([
      { answer: { action: 'accept', content: { colour: 'red' } } },
    ]);
  });
});

describe('the lifecycle of a session over ACP', () => {
  it('declares what the agent offers, and nothing else', async () => {
    const plain = await start({ resume: false, close: false });
    expect(plain.session.capabilities.delivery.modes).toEqual(['on-idle', 'immediate', 'manual']);
    expect(plain.session.capabilities.lifecycle).toEqual({ release: true });
    expect(plain.session.fork).toBeUndefined();
    const rich = await start({ steering: true, fork: true });
    expect(rich.session.capabilities.delivery.modes).toContain('next-tool-call');
    expect(rich.session.capabilities.lifecycle).toEqual({ release: true, fork: true });
  });

  it('forks the conversation, which a session with a home of its own continues', async () => {
    const parent = await start({ fork: true });
    await parent.settled(parent.send('hello'));
    await parent.isStatus('idle');
    writeFileSync(join(parent.home, 'kept'), 'yes');
    const from = await parent.session.fork?.({});
    const { conversations } = parent;
    const child = await start({ fork: true, conversations, from });
    await child.settled(child.send('and you?'));
    expect(child.logged('prompt')).toMatchObject([{ history: 2 }]);
    expect(readFileSync(join(child.home, 'kept'), 'utf8')).toBe('yes');
    await parent.settled(parent.send('still here?'));
    expect(parent.logged('prompt').at(-1)).toMatchObject({ history: 2 });
    await expect(parent.session.fork?.({ seq: 3 })).rejects.toThrow('leave out seq');
  });

  it('leaves the messages of its turn as they are when the server stops', async () => {
    const it = await start();
    const delivery = it.send(script({ say: 'word ', times: 10_000, pauseMs: 5 }));
    await until(() => it.transcript.includes('word'), 'the answer');
    it.shutDown();
    await it.session.release?.();
    expect(it.receiptsOf(delivery)).toEqual([{ status: 'delivered', fidelity: 'inferred' }]);
    expect(it.replies).toEqual([]);
  });

  it('ends its turn, its requests and the agent when it is released', async () => {
    const it = await start();
    it.send(script({ bash: 'touch x' }));
    const request = await it.open();
    await it.session.release?.();
    expect(request.isClosed).toBe(true);
    expect(it.logged('cancel')).toHaveLength(1);
    expect(it.logged('run')).toEqual([]);
  });
});
