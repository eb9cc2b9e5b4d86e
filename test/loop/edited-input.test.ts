/** A person may change the arguments of a call that they approve: what they wrote runs, and nothing else. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { RelayError } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import {
  decide,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  untilAsked,
} from './fixture.ts';
import { mortal } from './stores.ts';

/** Takes an amount, and fills in a currency. */
function createPay(options: { idempotent?: boolean } = {}) {
  return createRecordingTool({
    name: 'pay',
    ...options,
    validate: (value) => {
      const { amount, currency = 'EUR', ...rest } = value as Record<string, unknown>;
      const isRight = typeof amount === 'number' && Object.keys(rest).length === 0;
      return isRight
        ? { ok: true, value: { amount, currency } }
        : { ok: false, issues: [{ path: 'amount', message: 'Must be a number' }] };
    },
  });
}

const script = () =>
  createScriptedModel([
    ({ messages }) => {
      const amount = messages.at(-1)?.content === 'Only seven' ? 7 : 100;
      return [toolCall('call_1', 'pay', { amount }), finish()];
    },
    [text('Done.'), finish()],
  ]);

async function askedToPay(permissions = {}) {
  const fixture = await openFixture();
  const [tool, model] = [createPay(), script()];
  const kernel = await fixture.boot({ model, tools: [tool] });
  const run = await ask(kernel, { permissions });
  const [approval] = await untilAsked(kernel, run.id);
  return { ...fixture, kernel, run, tool, model, approval, approvalId: approval?.approvalId ?? '' };
}

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable('It was not refused'),
    (error: unknown) => error as RelayError,
  );

describe('arguments that a person changed', () => {
  test('are what runs, and both versions are kept with their digests', async () => {
    const { kernel, run, tool, approval, approvalId, store } = await askedToPay();
    await decide(kernel, approvalId, { input: { amount: 7 } });
    const events = await finished(kernel, run.id);
    const executed = { amount: 7, currency: 'EUR' };
    expect(tool.executions.map(({ input }) => input)).toEqual([executed]);
    expect(ofType(events, 'tool.called')).toMatchObject([{ input: { amount: 100 } }]);
    expect(ofType(events, 'tool.started')).toMatchObject([{ input: executed, approvalId }]);
    const [decided] = ofType(events, 'approval.decided');
    expect(decided).toMatchObject({ approved: true, input: executed });
    expect(decided?.digest).toMatch(/^[0-9a-f]{64}$/);
    expect(decided?.digest).not.toBe(approval?.digest);
    expect(await store.tenant(kernel.tenantId).readApproval(approvalId)).toMatchObject({
      params: { amount: 100, currency: 'EUR' },
      digest: approval?.digest,
      edited: { params: executed, digest: decided?.digest },
    });
  });

  test('are shown to the model, whose own call stays as it was', async () => {
    const { kernel, run, model, approvalId } = await askedToPay();
    await decide(kernel, approvalId, { input: { amount: 7 } });
    await finished(kernel, run.id);
    const request = lastOf(model.requests);
    const [read] = resultsIn(request);
    expect(read).toContain('A person changed the arguments');
    expect(read).toContain('{"amount":7,"currency":"EUR"}');
    expect(read).toContain('{"result":{"ran":"pay"}}');
    expect(JSON.stringify(request.messages)).toContain('{\\"amount\\":100}');
  });

  test('that equal the shown ones change nothing, and the model reads no note', async () => {
    const { kernel, run, model, approvalId, store } = await askedToPay();
    await decide(kernel, approvalId, { input: { currency: 'EUR', amount: 100 } });
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'duplicate' });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.decided')[0]).not.toHaveProperty('input');
    expect(await store.tenant(kernel.tenantId).readApproval(approvalId)).toMatchObject({
      edited: null,
    });
    expect(resultsIn(lastOf(model.requests))).toEqual(['{"result":{"ran":"pay"}}']);
  });

  test('are refused if they do not fit the tool, and nothing is decided', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    for (const input of [{ amount: 'much' }, {}, { amount: 1, more: 2 }]) {
      const error = await refusal(decide(kernel, approvalId, { input }));
      expect(error).toMatchObject({ code: 'tool_input_invalid', status: 400 });
    }
    expect(await untilAsked(kernel, run.id)).toHaveLength(1);
    expect(tool.executions).toEqual([]);
  });

  test('are refused if a deny rule speaks of them, and the approval stays open', async () => {
    const denylist = [{ tool: 'pay', params: { amount: '1????*' } }];
    const { kernel, run, tool, approvalId, store } = await askedToPay({ denylist });
    const error = await refusal(decide(kernel, approvalId, { input: { amount: 10_000 } }));
    expect(error).toMatchObject({ code: 'denied_by_rule', status: 403 });
    expect(error.message).toContain('denylist[0]');
    const tenant = store.tenant(kernel.tenantId);
    expect(await tenant.readApproval(approvalId)).toMatchObject({
      status: 'pending',
      edited: null,
    });
    expect(await tenant.readInbox(run.id)).toEqual([]);
    await decide(kernel, approvalId, { input: { amount: 9 } });
    await finished(kernel, run.id);
    expect(tool.executions).toMatchObject([{ input: { amount: 9 } }]);
  });

  test('are read as what they are when a deny rule looks at them', async () => {
    const fixture = await openFixture();
    const shell = {
      ...createRecordingTool({ name: 'shell' }),
      kinds: { command: 'command' },
    } as const;
    const model = createScriptedModel([
      [toolCall('call_1', 'shell', { command: 'ls' }), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await fixture.boot({ model, tools: [shell] });
    const denylist = [{ tool: 'shell', params: { command: 'rm *' } }];
    const run = await ask(kernel, { permissions: { denylist } });
    const [approval] = await untilAsked(kernel, run.id);
    for (const command of ['rm x', 'ls; rm x', '/bin/rm x', 'env rm x', '"rm" x']) {
      const error = await refusal(decide(kernel, approval?.approvalId, { input: { command } }));
      expect(error.code, command).toBe('denied_by_rule');
    }
    expect(shell.executions).toEqual([]);
  });

  test('cannot be checked once the tool no longer exists, and nothing is decided', async () => {
    const { kernel, run, tool, approvalId, boot, store } = await askedToPay();
    await kernel.stop();
    const later = await boot({ model: script(), tools: [], restarted: true });
    const error = await refusal(decide(later, approvalId, { input: { amount: 1 } }));
    expect(error).toMatchObject({ code: 'tool_unavailable', status: 409 });
    expect(await store.tenant(later.tenantId).readApproval(approvalId)).toMatchObject({
      status: 'pending',
    });
    expect(await untilAsked(later, run.id)).toHaveLength(1);
    expect(tool.executions).toEqual([]);
  });

  test('repeated are the same decision, and other ones contradict it, also without the tool', async () => {
    const { kernel, run, tool, approvalId, boot } = await askedToPay();
    const input = { amount: 7 };
    expect(await decide(kernel, approvalId, { input })).toMatchObject({ kind: 'decided' });
    expect(await decide(kernel, approvalId, { input })).toMatchObject({ kind: 'duplicate' });
    for (const other of [{ input: { amount: 8 } }, { input: { amount: 100 } }, {}]) {
      expect(await decide(kernel, approvalId, other)).toMatchObject({ kind: 'conflict' });
    }
    await finished(kernel, run.id);
    await kernel.stop();
    const later = await boot({ model: script(), tools: [], restarted: true });
    expect(await decide(later, approvalId, { input })).toMatchObject({ kind: 'duplicate' });
    expect(tool.executions).toHaveLength(1);
  });

  test('with “always” are what is granted, and not what was asked about', async () => {
    const { kernel, run, tool, approvalId, store } = await askedToPay();
    await decide(kernel, approvalId, { input: { amount: 7 }, always: true });
    await finished(kernel, run.id);
    const { conversationId, owner } = run;
    const scope = { runId: run.id, conversationId, owner, now: Date.now() };
    expect(await store.tenant(kernel.tenantId).readGrants(scope)).toMatchObject([
      { tool: 'pay', exact: { amount: 7, currency: 'EUR' } },
    ]);
    const seven = await ask(kernel, {
      conversationId,
      messages: [{ role: 'user', content: 'Only seven' }],
    });
    const events = await finished(kernel, seven.id);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(tool.executions).toHaveLength(2);
    const hundred = await ask(kernel, { conversationId });
    await untilAsked(kernel, hundred.id);
  });

  test('win once of 20 that race, and what won runs', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    const amounts = Array.from({ length: 20 }, (_, n) => n + 1);
    const outcomes = await Promise.all(
      amounts.map((amount) => decide(kernel, approvalId, { input: { amount } })),
    );
    const won = amounts.filter((_, n) => outcomes[n]?.kind === 'decided');
    expect(won).toHaveLength(1);
    await finished(kernel, run.id);
    expect(tool.executions).toMatchObject([{ input: { amount: won[0] } }]);
  });

  test('are what a crash asks about: the outcome is that of the call that ran', async () => {
    const fixture = await openFixture();
    const tool = createPay();
    tool.hold();
    const dying = mortal(fixture.store);
    const first = await fixture.bootWithoutCleanup({
      store: dying.store,
      model: script(),
      tools: [tool],
    });
    const run = await ask(first);
    const [asked] = await untilAsked(first, run.id);
    await decide(first, asked?.approvalId, { input: { amount: 7 } });
    await expect.poll(() => tool.executions.length).toBe(1);
    dying.kill();
    const second = await fixture.boot({ model: script(), tools: [tool], restarted: true });
    const [approval] = await untilAsked(second, run.id);
    expect(approval).toMatchObject({ kind: 'outcome', params: { amount: 7, currency: 'EUR' } });
    const rerun = { outcome: 'rerun', input: { amount: 1 } } as const;
    const error = await refusal(decide(second, approval?.approvalId, rerun));
    expect(error).toMatchObject({ code: 'invalid_request', details: [{ path: 'input' }] });
    expect(ofType(await journal(second, run.id), 'approval.decided')).toHaveLength(1);
    expect(tool.executions).toHaveLength(1);
  });
});
