/** Invocations that rules decide and people approve, on both databases. */
import { attendWaiting, closeRequests, requestPermission, type SystemStore } from '@relay/core';
import { finish, text, toolCall } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import { createStreamingModel } from '../../../../../test/loop/fixture.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../../support/server.ts';
import { attached, type AttachedSession, openStream } from '../../support/sessions.ts';
import { stores } from '../../support/stores.ts';

type Json = Record<string, unknown>;

const inputSchema = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
};

const guardedCall = { name: 'guarded', input: { text: 'ask me' } };

describe.each(Object.entries(stores))('approvals of invocations on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  const calls: unknown[] = [];

  beforeAll(async () => {
    store = await open();
    const names = ['open', 'guarded', 'forbidden'];
    const actions = names.map((name) => ({
      name,
      description: 'Does it',
      inputSchema,
      handler: (input: Json) => {
        calls.push(input);
        return input;
      },
    }));
    const model = createStreamingModel(({ messages }) =>
      messages.some(({ role }) => role === 'tool')
        ? [[text('Done.'), finish()]]
        : [[toolCall('call_1', 'invoke_action', guardedCall), finish()]],
    );
    const models = createModelRegistry([{ id: 'invoking', provider: 'test', model }]);
    server = await bootServer({ store, models, file: { actions } });
    await putPolicy({
      deny: [{ tool: 'action:forbidden' }],
      ask: [{ tool: 'action:guarded', params: { text: 'ask*' } }],
    });
  });

  beforeEach(() => void calls.splice(0));

  afterAll(async () => {
    await server.stop();
    await store.close();
  });

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  async function putPolicy(rules: Json) {
    const { body } = await ask('/v1/policy');
    const version = Number(body['version'] ?? 0);
    const put = await ask('/v1/policy', { method: 'PUT', body: { version, ...rules } });
    expect([put.status, put.body]).toEqual([200, expect.anything()]);
  }

  const attach = (actions?: object) =>
    attached(server, actions === undefined ? {} : { capabilities: { actions } });

  function invoke(name: string, text: string, options: RequestOptions = {}, waitMs = 0) {
    const path = `/v1/actions/${name}/invoke?waitMs=${waitMs}`;
    return ask(path, { body: { input: { text } }, ...options });
  }

  /** An invocation that waits, and its approval. */
  async function asked(session: AttachedSession, name = 'guarded', text = 'ask me') {
    const { status, body } = await invoke(name, text, { key: session.token });
    expect([status, body['status']]).toEqual([202, 'waiting']);
    const id = String(body['id']);
    const approvalId = String(body['approvalId']);
    const path = `/v1/approvals/${approvalId}`;
    const settled = () =>
      until(async () => {
        const { body: now } = await ask(`/v1/invocations/${id}`);
        return 'endedAt' in now && now;
      }, 'the end of an invocation');
    return { id, approvalId, path, settled };
  }

  async function actionEvents({ path }: AttachedSession): Promise<unknown[]> {
    const { body } = await ask(`${path}/events`);
    const types = (body['events'] as { type: string }[]).map(({ type }) => type);
    return types.filter((type) => type.startsWith('action.'));
  }

  it('the policy decides whether a caller may invoke an action', async () => {
    verifies('004:actions:caller-policy');
    const session = await attach();
    expect((await invoke('open', 'hi', { key: session.token }, 30_000)).body).toMatchObject({
      status: 'completed',
    });
    for (const options of [{ key: session.token }, {}]) {
      const refused = await invoke('forbidden', 'hi', options);
      expect([refused.status, refused.body]).toMatchObject([403, { code: 'action_denied' }]);
    }
    expect(await actionEvents(session)).toEqual([
      'action.invoked',
      'action.completed',
      'action.denied',
    ]);
    expect(calls).toEqual([{ text: 'hi' }]);
    // Where the rule does not match, the action is allowed by default.
    expect((await invoke('guarded', 'free', {}, 30_000)).body).toMatchObject({
      status: 'completed',
    });
    const explained = await ask('/v1/permissions/explain', {
      body: { tool: 'action:guarded', params: { text: 'ask me' } },
    });
    expect(explained.body).toMatchObject({ decision: 'ask', rule: { source: 'policy' } });
  });

  it('explains the approval of an invocation', async () => {
    const { approvalId, path, settled } = await asked(await attach());
    const { body: approval } = await ask(path);
    const explain = async (text: string) => {
      const body = { approvalId, tool: 'action:guarded', params: { text } };
      return (await ask('/v1/permissions/explain', { body })).body;
    };
    expect(await explain('ask me')).toMatchObject({ decision: 'ask', rule: approval['rule'] });
    expect(await explain('free')).toMatchObject({ decision: 'allow' });
    await ask(path, { body: { approved: false } });
    await settled();
  });

  it.each([true, false])(
    'a native session waits while the approval of its action is open, and works again when it is decided (approved: %s)',
    async (approved) => {
      const handle = `h-${uuidv7()}`;
      const body = { harness: 'native', handle, model: 'invoking' };
      const { body: session } = await ask('/v1/sessions', { body });
      const path = `/v1/sessions/${String(session['id'])}`;
      const untilStatus = (status: string) =>
        until(async () => (await ask(path)).body['status'] === status, status);
      await ask('/v1/messages', { body: { to: `@${handle}`, text: 'Begin' } });
      await untilStatus('waiting');
      const urgent = { to: `@${handle}`, text: 'Urgent', mode: 'immediate' };
      const { body: sent } = await ask('/v1/messages', { body: urgent });
      expect(sent['deliveries']).toMatchObject([{ status: 'deferred' }]);
      const { body: listed } = await ask('/v1/approvals?status=pending');
      const approval = (listed['approvals'] as Json[]).find(
        ({ sessionId }) => sessionId === session['id'],
      );
      const decided = await ask(`/v1/approvals/${String(approval?.['id'])}`, {
        body: { approved },
      });
      expect(decided.status).toBe(200);
      await untilStatus('idle');
      const { body: log } = await ask(`${path}/events`);
      expect(log['events']).toContainEqual(
        expect.objectContaining({ type: 'delivery.deferred', reason: 'approval open' }),
      );
      const statuses = (log['events'] as Json[])
        .filter(({ type }) => type === 'status.changed')
        .map(({ status }) => status);
      expect(statuses.slice(0, 5)).toEqual(['starting', 'idle', 'active', 'waiting', 'active']);
    },
  );

  it('an approval without a run names the session, conversation and invocation', async () => {
    const session = await attach();
    const { id, approvalId, path } = await asked(session);
    const { body: approval } = await ask(path);
    const { body: shown } = await ask(session.path);
    expect(approval).toMatchObject({
      id: approvalId,
      status: 'pending',
      kind: 'permission',
      tool: 'action:guarded',
      params: { text: 'ask me' },
      sessionId: session.id,
      conversationId: shown['conversationId'],
      invocationId: id,
      rule: { list: 'ask', source: 'policy' },
    });
    for (const field of ['runId', 'agentId', 'toolCallId', 'keyId']) {
      expect(approval).not.toHaveProperty(field);
    }
    const filters = [
      `sessionId=${session.id}`,
      `conversationId=${String(shown['conversationId'])}`,
      `invocationId=${id}&status=pending`,
    ];
    for (const filter of filters) {
      const { body } = await ask(`/v1/approvals?${filter}`);
      expect(body['approvals']).toMatchObject([{ id: approvalId }]);
    }
    expect((await ask(`/v1/approvals?sessionId=${uuidv7()}`)).body['approvals']).toEqual([]);
    // A session token never approves.
    const body = { approved: true };
    expect((await ask(path, { body, key: session.token })).status).toBe(403);
    expect(calls).toEqual([]);
  });

  it('an approved invocation runs once, with the arguments that were approved', async () => {
    const session = await attach();
    const { path, settled } = await asked(session);
    const invalid = await ask(path, { body: { approved: true, input: { text: 1 } } });
    expect(invalid.body).toMatchObject({ code: 'tool_input_invalid' });
    const stale = await ask(path, { body: { approved: true, digest: '0'.repeat(64) } });
    expect(stale.body).toMatchObject({ code: 'approval_changed' });
    const decision = { approved: true, input: { text: 'changed' } };
    const [one, two] = await Promise.all([
      ask(path, { body: decision }),
      ask(path, { body: decision }),
    ]);
    expect([one.status, two.status]).toEqual([200, 200]);
    expect(await settled()).toMatchObject({
      status: 'completed',
      input: { text: 'ask me' },
      output: { text: 'changed' },
    });
    expect(calls).toEqual([{ text: 'changed' }]);
    expect((await ask(path, { body: { approved: false } })).body).toMatchObject({
      code: 'approval_conflict',
    });
    expect((await ask(path)).body).toMatchObject({
      status: 'approved',
      executedParams: { text: 'changed' },
    });
    expect(await actionEvents(session)).toEqual(['action.invoked', 'action.completed']);
    const { body: entries } = await ask('/v1/audit?action=approval.decided&limit=1');
    expect(entries['entries']).toMatchObject([{ what: { sessionId: session.id, approved: true } }]);
  });

  it('a denied invocation is denied, with the reason, and never starts', async () => {
    const session = await attach();
    const waiting = invoke('guarded', 'ask me', { key: session.token }, 30_000);
    const approval = await until(async () => {
      const { body } = await ask(`/v1/approvals?sessionId=${session.id}&status=pending`);
      return (body['approvals'] as { id: string }[])[0];
    }, 'an approval');
    await ask(`/v1/approvals/${approval.id}`, { body: { approved: false, reason: 'Not today' } });
    expect(await waiting).toMatchObject({
      status: 403,
      body: { code: 'action_denied', error: 'Not today' },
    });
    expect(await actionEvents(session)).toEqual(['action.invoked', 'action.denied']);
    expect(calls).toEqual([]);
  });

  it('the session of an action gets it when it is approved, not before', async () => {
    const exposing = await attach();
    const caller = await attach();
    const name = `a-${uuidv7()}`;
    await ask('/v1/actions', {
      body: { name, description: 'Does it', inputSchema, handler: { sessionId: exposing.id } },
    });
    await putPolicy({ ask: [{ tool: `action:${name}` }] });
    const { path, settled, id } = await asked(caller, name);
    const frames = await openStream(server, exposing);
    expect(await actionEvents(exposing)).toEqual([]);
    await ask(path, { body: { approved: true, input: { text: 'changed' } } });
    const { data } = await frames.until('invocation');
    expect(data).toMatchObject({ invocationId: id, input: { text: 'changed' } });
    await ask(`/v1/invocations/${id}/result`, { body: { output: 1 }, key: exposing.token });
    expect(await settled()).toMatchObject({ status: 'completed', output: 1 });
    expect(await actionEvents(exposing)).toEqual(['action.invoked', 'action.completed']);
    // An action that was registered anew was not approved.
    const second = await asked(caller, name);
    await ask(`/v1/actions/${name}`, { method: 'DELETE' });
    expect((await ask(second.path, { body: { approved: true } })).body).toMatchObject({
      code: 'tool_unavailable',
    });
    // The approval closes with what it is for, and is not denied.
    const released = ask(`${exposing.path}/release`, { method: 'POST' });
    const { data: command } = await frames.until('command');
    await ask(`${exposing.path}/commands/${String(command['commandId'])}`, {
      body: { ok: true },
      key: exposing.token,
    });
    await released;
    expect(await second.settled()).toMatchObject({
      status: 'failed',
      error: { code: 'action_gone' },
    });
    expect((await ask(second.path)).body).toMatchObject({ status: 'closed' });
    await frames.disconnect();
    await putPolicy({
      deny: [{ tool: 'action:forbidden' }],
      ask: [{ tool: 'action:guarded', params: { text: 'ask*' } }],
    });
  });

  it('a paused tenant invokes nothing, and starts what was approved when it is resumed', async () => {
    const { engine } = server.relay.control;
    const setPaused = (paused: boolean) => ask('/v1/tenant', { method: 'PUT', body: { paused } });
    const [caller, exposing] = [await attach(), await attach()];
    const name = `a-${uuidv7()}`;
    const registered = { name, description: 'Does it', inputSchema };
    const added = { ...registered, handler: { sessionId: exposing.id } };
    expect((await ask('/v1/actions', { body: added })).status).toBe(201);
    await putPolicy({ ask: [{ tool: `action:${name}` }, { tool: 'action:guarded' }] });
    const [own, exposed] = [await asked(caller), await asked(caller, name)];
    const { body } = await ask(exposing.path);
    const { handle } = body['identity'] as { handle: string };
    const frames = await openStream(server, exposing);
    expect((await setPaused(true)).body).toMatchObject({ paused: true });
    try {
      for (const options of [{ key: caller.token }, {}]) {
        const refused = await invoke('open', 'hi', options);
        expect([refused.status, refused.body]).toMatchObject([409, { code: 'tenant_paused' }]);
      }
      for (const { path, id } of [own, exposed]) {
        expect((await ask(path, { body: { approved: true } })).status).toBe(200);
        await engine.invocations?.attend(server.tenantId, id);
        expect((await ask(`/v1/invocations/${id}`)).body).toMatchObject({ status: 'running' });
      }
      const { sessions } = store;
      const now = engine.clock.now();
      const due = [
        ...(await sessions.dueHandlers(now, 1_000)),
        ...(await sessions.dueInvocations(now, 1_000)),
      ];
      expect(due.filter(({ tenantId }) => tenantId === server.tenantId)).toEqual([]);
      // A program gets invocations before messages.
      await ask('/v1/messages', { body: { to: `@${handle}`, text: 'one' } });
      await frames.until('delivery');
      const { actions } = store.tenant(server.tenantId);
      expect(await actions.unsentInvocations(exposing.id, 9)).toMatchObject([{ id: exposed.id }]);
      expect(calls).toEqual([]);
    } finally {
      await setPaused(false);
    }
    expect(await own.settled()).toMatchObject({ status: 'completed' });
    // Nothing else has changed the session since.
    expect((await frames.until('invocation')).data).toMatchObject({ invocationId: exposed.id });
    await frames.disconnect();
    await putPolicy({
      deny: [{ tool: 'action:forbidden' }],
      ask: [{ tool: 'action:guarded', params: { text: 'ask*' } }],
    });
  });

  it('where the policy names approvers, they vote, and the requester may not', async () => {
    const group = `g-${uuidv7()}`;
    await putPolicy({
      approvers: [{ tool: 'action:open', groups: [group], quorum: 2, notRequester: true }],
    });
    const keyOf = async (owner: string) =>
      (await addKey(store, { owner, groups: [group], scopes: ['runs', 'approve'] })).apiKey;
    const [ada, bob, eve] = [await keyOf('ada'), await keyOf('bob'), await keyOf('eve')];
    const { body } = await invoke('open', 'hi', { key: ada });
    expect(body).toMatchObject({ status: 'waiting' });
    const path = `/v1/approvals/${String(body['approvalId'])}`;
    const vote = (key: string) => ask(path, { body: { approved: true }, key });
    expect((await vote(ada)).body).toMatchObject({ code: 'not_an_approver' });
    expect((await vote(bob)).body).toMatchObject({ status: 'pending', quorum: 2 });
    expect(calls).toEqual([]);
    expect((await vote(eve)).body).toMatchObject({ status: 'approved' });
    await until(() => calls.length === 1, 'the call');
    await putPolicy({
      deny: [{ tool: 'action:forbidden' }],
      ask: [{ tool: 'action:guarded', params: { text: 'ask*' } }],
    });
  });

  it('a grant of scope session holds for this session until it ends', async () => {
    await putPolicy({ approvers: [{ tool: 'action:open', quorum: 1, notRequester: false }] });
    const [session, other] = [await attach(), await attach()];
    const { path, settled } = await asked(session, 'open', 'hi');
    const body = { approved: true, always: true, scope: 'session' };
    expect((await ask(path, { body })).status).toBe(200);
    await settled();
    expect((await invoke('open', 'hi', { key: session.token }, 30_000)).body).toMatchObject({
      status: 'completed',
    });
    expect((await invoke('open', 'hi', { key: other.token })).body).toMatchObject({
      status: 'waiting',
    });
    const { body: listed } = await ask(`/v1/grants?scope=session&scopeId=${session.id}`);
    expect(listed['grants']).toMatchObject([
      { scope: 'session', scopeId: session.id, status: 'active' },
    ]);
    // Without a session there is none to grant it for.
    const { body: byKey } = await invoke('open', 'hi');
    const refused = await ask(`/v1/approvals/${String(byKey['approvalId'])}`, { body });
    expect(refused.body).toMatchObject({ code: 'invalid_request', details: [{ path: 'scope' }] });
    const grant = { tool: 'action:open', scope: 'session', scopeId: uuidv7() };
    expect((await ask('/v1/grants', { body: grant })).body).toMatchObject({
      code: 'invalid_request',
    });
    await ask(session.path, { method: 'DELETE' });
    const { body: left } = await ask(`/v1/grants?scope=session&scopeId=${session.id}`);
    expect(left['grants']).toEqual([]);
    const all = await ask(`/v1/grants?scope=session&scopeId=${session.id}&status=all`);
    expect(all.body['grants']).toMatchObject([{ status: 'expired' }]);
    await putPolicy({
      deny: [{ tool: 'action:forbidden' }],
      ask: [{ tool: 'action:guarded', params: { text: 'ask*' } }],
    });
  });

  it('an approval that nobody decides expires, and the invocation is denied', async () => {
    const session = await attach();
    const { id, approvalId, settled, path } = await asked(session);
    const tenant = store.tenant(server.tenantId);
    const approval = await tenant.readApproval(approvalId);
    if (approval === undefined) throw new Error('No approval');
    // As if its time were over: the row itself is signed.
    const { engine } = server.relay.control;
    const late = { ...engine.clock, now: () => approval.expiresAt + 60_000 };
    const runner = engine.invocations;
    const invocation = await tenant.actions.readInvocation(id);
    if (runner === undefined || invocation === undefined) throw new Error('No invocation');
    await attendWaiting(engine, server.tenantId, invocation);
    expect((await ask(path)).body).toMatchObject({ status: 'pending' });
    const warned = await tenant.actions.readInvocation(id);
    if (warned === undefined) throw new Error('No invocation');
    expect(warned.dueAt).toBe(approval.expiresAt + engine.settings.lateAnswerMs);
    await attendWaiting({ ...engine, clock: late }, server.tenantId, warned);
    expect(await settled()).toMatchObject({ status: 'denied', error: { code: 'action_denied' } });
    expect((await ask(path)).body).toMatchObject({ status: 'expired' });
    expect(await actionEvents(session)).toEqual(['action.invoked', 'action.denied']);
    const { body: entries } = await ask('/v1/audit?action=approval.expired&limit=1');
    expect(entries['entries']).toMatchObject([{ what: { invocationId: id } }]);
  });

  it('rules answer a session’s request for permission before a person is asked', async () => {
    await putPolicy({ allow: [{ tool: 'read' }], deny: [{ tool: 'fetch' }] });
    const session = await attach();
    const { engine } = server.relay.control;
    const ref = { tenantId: server.tenantId, sessionId: session.id };
    const input = { command: 'make', filePath: 'a', url: 'https://example.com/' };
    const request = (tool: string) => requestPermission(engine, ref, { tool, input });
    expect(await request('read')).toEqual({ kind: 'allowed' });
    expect(await request('fetch')).toMatchObject({ kind: 'denied' });
    const outcome = await request('bash');
    if (outcome.kind !== 'asked') throw new Error(`It was ${outcome.kind}`);
    const path = `/v1/approvals/${outcome.approval.id}`;
    expect((await ask(path)).body).toMatchObject({ sessionId: session.id, tool: 'bash' });
    const body = { approved: true, always: true, scope: 'session', uses: 1 };
    expect((await ask(path, { body })).body).toMatchObject({ status: 'approved' });
    // A counted grant is used up by one of two requests.
    const both = await Promise.all([request('bash'), request('bash')]);
    expect(both.map(({ kind }) => kind).toSorted()).toEqual(['allowed', 'asked']);
    await closeRequests(engine, ref);
    const { body: listed } = await ask(`/v1/approvals?sessionId=${session.id}`);
    expect(listed['approvals']).toMatchObject([{ status: 'closed' }, { status: 'approved' }]);
  });
});
