/** Who may decide: `approvers` of the policy, votes and quorums, on every surface. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  addKey,
  bootServer,
  type KeyOptions,
  type TestServer,
  until,
} from '../../support/server.ts';
import {
  answerApproval,
  decideCall,
  eventsOf,
  startApiChat,
  startChat,
  startRun,
  untilStatus,
} from '../../support/requests.ts';

type Json = Readonly<Record<string, unknown>>;

describe('approvers', () => {
  let server: TestServer;
  /** Starts the runs. */
  let op: Person;
  let ada: Person;
  let adaAgain: Person;
  let ben: Person;
  let eve: Person;

  interface Person {
    readonly key: string;
    readonly keyId: string;
  }

  async function person(options: KeyOptions): Promise<Person> {
    const { apiKey: key, keyId } = await addKey(server.store, options);
    return { key, keyId };
  }

  const approve = ['read', 'approve'];

  beforeAll(async () => {
    server = await bootServer();
    op = await person({ owner: 'op', scopes: ['read', 'runs', 'approve'], groups: ['release'] });
    ada = await person({ owner: 'ada', scopes: approve, groups: ['release'] });
    adaAgain = await person({ owner: 'ada', scopes: approve, groups: ['release'] });
    ben = await person({ owner: 'ben', scopes: approve, groups: ['release'] });
    eve = await person({ owner: 'eve', scopes: ['read', 'runs', 'approve'] });
  });

  afterAll(async () => {
    await server.stop();
  });

  const release = { tool: 'send_note', groups: ['release'], quorum: 2 };

  async function setApprovers(...approvers: readonly Json[]): Promise<void> {
    const { version } = await server.json('/v1/policy');
    const body = { version, approvers };
    const response = await server.request('/v1/policy', { method: 'PUT', body });
    expect([response.status, await response.json()]).toMatchObject([200, { approvers }]);
  }

  beforeEach(() => setApprovers(release));

  async function asking(text: string, by: Person = op) {
    const { runId, reader } = await startRun(server, { input: `notify ${text}` }, { key: by.key });
    const { data } = await reader.until('approval_requested');
    const id = String(data['id']);
    const path = `/v1/approvals/${id}`;
    const decide = async (by: Person, body: Json = { approved: true }) => {
      const response = await server.request(path, { key: by.key, body });
      return { status: response.status, body: (await response.json()) as Json };
    };
    const sent = () => server.notes().filter((line) => line.includes(text)).length;
    return { runId, reader, id, path, decide, sent };
  }

  async function auditOf(runId: string, ...actions: readonly string[]) {
    return until(
      async () => {
        const { entries } = (await server.json(`/v1/audit?runId=${runId}`)) as { entries: Json[] };
        const found = entries.filter(({ action }) => actions.includes(String(action)));
        return found.length >= actions.length ? found.toReversed() : undefined;
      },
      `the entries ${actions.join(', ')}`,
    );
  }

  it('vote: the last vote of the quorum decides, in the order and the roles of the voters', async () => {
    const { decide, reader, sent, path, runId } = await asking('two of us');
    expect(await server.json(path)).toMatchObject({
      status: 'pending',
      votes: [],
      quorum: 2,
      approvers: { groups: ['release'], notRequester: false },
    });
    const first = await decide(ada);
    expect(first).toMatchObject({
      status: 200,
      body: {
        status: 'pending',
        votes: [{ by: { id: ada.keyId, owner: 'ada' }, role: 'approver', at: expect.any(String) }],
        quorum: 2,
      },
    });
    expect(sent()).toBe(0);
    const last = await decide(ben);
    const votes = [{ by: { owner: 'ada' } }, { by: { owner: 'ben' } }];
    expect(last).toMatchObject({ status: 200, body: { status: 'approved', votes, quorum: 2 } });
    expect(last.body).not.toHaveProperty('approvers');
    await reader.rest();
    expect(sent()).toBe(1);
    expect(await decide(ada)).toMatchObject({ status: 200, body: { status: 'approved' } });
    const { events } = await eventsOf(server, runId);
    expect(events.filter(({ type }) => type === 'approval.decided')).toHaveLength(1);
    expect(await auditOf(runId, 'approval.voted', 'approval.decided')).toMatchObject([
      { action: 'approval.voted', who: { owner: 'ada', role: 'approver' } },
      {
        action: 'approval.decided',
        who: { owner: 'ben' },
        what: { votes: ['ada (approver)', 'ben (approver)'], quorum: 2 },
      },
    ]);
  });

  it('count once per person, with however many keys and repetitions', async () => {
    const { decide, reader, sent } = await asking('not twice');
    const { body } = await decide(ada);
    const again = [await decide(ada), await decide(adaAgain), await decide(ada)];
    for (const answer of again) {
      expect(answer).toMatchObject({ status: 200, body: { status: 'pending', quorum: 2 } });
      expect(answer.body['votes']).toHaveLength(1);
    }
    expect(again[0]?.body['votes']).toEqual(body['votes']);
    expect(sent()).toBe(0);
    await decide(ben);
    await reader.rest();
    expect(sent()).toBe(1);
  });

  it('deny at once, whatever others voted', async () => {
    const { decide, reader, sent } = await asking('not today');
    await decide(ada);
    const denied = await decide(ben, { approved: false, reason: 'No' });
    expect(denied).toMatchObject({ status: 200, body: { status: 'denied' } });
    expect((await decide(ada)).status).toBe(409);
    await reader.rest();
    expect(sent()).toBe(0);
  });

  it('are the only ones who decide: others get 403, which is audited', async () => {
    const { decide, reader, runId } = await asking('hands off');
    for (const body of [
      { approved: true },
      { approved: false },
      { approved: true, always: true },
    ]) {
      const refused = await decide(eve, body);
      expect(refused).toMatchObject({ status: 403, body: { code: 'not_an_approver' } });
      expect(refused.body['error']).toContain('2 persons in the group release');
    }
    const entries = await auditOf(runId, 'approval.refused');
    // Repetitions within a minute are counted in the next entry.
    expect(entries).toMatchObject([{ who: { owner: 'eve' }, what: { tool: 'send_note' } }]);
    await decide(ada, { approved: false });
    await reader.rest();
  });

  it('of 20 that vote at the same time decide once', async () => {
    await setApprovers({ tool: 'send_note', quorum: 5 });
    const persons = await Promise.all(
      Array.from({ length: 20 }, (_, n) => person({ owner: `racer ${n}`, scopes: approve })),
    );
    const { decide, reader, sent, path, runId } = await asking('a race of votes');
    const answers = await Promise.all(persons.map((each) => decide(each)));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    await reader.rest();
    expect(sent()).toBe(1);
    expect((await server.json(path))['votes']).toHaveLength(5);
    const { events } = await eventsOf(server, runId);
    expect(events.filter(({ type }) => type === 'approval.decided')).toHaveLength(1);
  });

  it('do not include the person who started the run, with any key, if the rule says so', async () => {
    await setApprovers({ ...release, quorum: 1, notRequester: true });
    const { decide, reader } = await asking('my own call');
    const refused = await decide(op);
    expect(refused).toMatchObject({ status: 403, body: { code: 'not_an_approver' } });
    expect(refused.body['error']).toContain('other than the person who started the run');
    const other = await person({ owner: 'op', scopes: approve, groups: ['release'] });
    expect((await decide(other)).status).toBe(403);
    expect(await decide(ada)).toMatchObject({ status: 200, body: { status: 'approved' } });
    await reader.rest();
  });

  it('are named by role or by key', async () => {
    await setApprovers({ tool: 'send_note', roles: ['admin'] });
    const first = await asking('by role');
    expect((await first.decide(ada)).status).toBe(403);
    const admin = { key: server.apiKey, keyId: '' };
    expect((await first.decide(admin)).body).toMatchObject({ status: 'approved' });
    await first.reader.rest();
    await setApprovers({ tool: 'send_note', keys: [ada.keyId] });
    const second = await asking('by key');
    expect((await second.decide(adaAgain)).status).toBe(403);
    expect((await second.decide(ada)).body).toMatchObject({ status: 'approved' });
    await second.reader.rest();
  });

  it('are those of the policy and the keys at the time of the vote', async () => {
    const { decide, reader, path } = await asking('a changed policy');
    const gone = await person({ owner: 'gone', scopes: approve, groups: ['release'] });
    await decide(gone);
    await server.request(`/v1/keys/${gone.keyId}`, { method: 'DELETE' });
    const answer = await decide(ada);
    expect(answer.body).toMatchObject({ status: 'pending', votes: [{ by: { owner: 'ada' } }] });
    await setApprovers({ tool: 'send_note', keys: [ben.keyId, op.keyId], quorum: 2 });
    expect((await decide(ada)).status).toBe(403);
    expect((await decide(ben)).body).toMatchObject({
      status: 'pending',
      votes: [{ by: { owner: 'ben' } }],
    });
    // With a lower quorum, a repeated vote is enough.
    await setApprovers({ tool: 'send_note', keys: [ben.keyId] });
    expect((await decide(ben)).body).toMatchObject({ status: 'approved', quorum: 1 });
    await reader.rest();
    expect(await server.json(path)).toMatchObject({ votes: [{ by: { owner: 'ben' } }] });
  });

  it('start over when one of them changes the arguments, and name what they saw', async () => {
    const { decide, reader, sent, runId } = await asking('first text');
    const input = { to: 'operator', text: 'second text' };
    await decide(ada);
    const edited = await decide(ben, { approved: true, input });
    expect(edited.body).toMatchObject({
      status: 'pending',
      votes: [{ by: { owner: 'ben' } }],
      params: { text: 'first text' },
      executedParams: input,
      executedDigest: expect.any(String),
    });
    const { digest, executedDigest } = edited.body;
    for (const body of [{ approved: true }, { approved: true, digest }]) {
      const blind = await decide(ada, body);
      expect(blind).toMatchObject({ status: 409, body: { code: 'approval_changed' } });
    }
    expect(sent()).toBe(0);
    const agreed = await decide(ada, { approved: true, digest: executedDigest });
    expect(agreed.body).toMatchObject({ status: 'approved', executedParams: input });
    await reader.rest();
    expect(server.notes().filter((line) => line.includes('second text'))).toHaveLength(1);
    expect(sent()).toBe(0);
    expect((await decide(ada, { approved: true, digest: executedDigest })).status).toBe(200);
    expect((await decide(ben, { approved: true, input })).status).toBe(200);
    expect((await decide(ada)).status).toBe(409);
    expect(
      await auditOf(runId, 'approval.voted', 'approval.voted', 'approval.decided'),
    ).toMatchObject([
      { what: { votes: ['ada (approver)'] } },
      { what: { votes: ['ben (approver)'], executedDigest } },
      { what: { votes: ['ben (approver)', 'ada (approver)'], executedDigest } },
    ]);
  });

  it('are shown the arguments as they are changed', async () => {
    const { decide, path, reader } = await asking('shown first');
    await decide(ada, { approved: true, input: { to: 'operator', text: 'shown second' } });
    const { display } = (await server.json(path)) as { display: { text: string } };
    expect(display.text).toContain('shown second');
    await decide(ben, { approved: false });
    await reader.rest();
  });

  it('must be entitled for the call as it was requested and as it was changed', async () => {
    await setApprovers(
      { tool: 'send_note', params: { to: 'press' }, keys: [ben.keyId] },
      { tool: 'send_note', params: { to: 'operator' }, keys: [ada.keyId] },
    );
    const { decide, reader } = await asking('to the press');
    const input = { to: 'press', text: 'x' };
    expect((await decide(ada, { approved: true, input })).status).toBe(403);
    expect((await decide(ben, { approved: true, input })).status).toBe(403);
    expect((await decide(ada)).body).toMatchObject({ status: 'approved' });
    await reader.rest();
  });

  it('bind a decision to what was shown, also without a quorum', async () => {
    await setApprovers();
    const { decide, reader, path } = await asking('bound');
    const { digest } = await server.json(path);
    expect(await decide(eve, { approved: true, digest: 'f00' })).toMatchObject({
      status: 409,
      body: { code: 'approval_changed' },
    });
    expect((await decide(eve, { approved: true, digest })).status).toBe(200);
    await reader.rest();
  });

  it('grant together: the last vote makes the grant, if all asked for the same', async () => {
    const { decide, reader, runId } = await asking('granted by two');
    const always = { approved: true, always: true };
    expect((await decide(ada, always)).body).toMatchObject({ status: 'pending' });
    const { conversationId } = await server.json(`/v1/runs/${runId}`);
    const grants = () => server.json(`/v1/grants?scopeId=${String(conversationId)}`);
    expect(await decide(ben, { approved: true })).toMatchObject({
      body: { status: 'pending', votes: [{ by: { owner: 'ada' } }, { by: { owner: 'ben' } }] },
    });
    expect(await grants()).toMatchObject({ grants: [] });
    expect((await decide(ben, always)).body).toMatchObject({ status: 'approved' });
    await reader.rest();
    expect(await grants()).toMatchObject({ grants: [{ tool: 'send_note' }] });
    const body = { input: 'notify granted by two', conversationId };
    const { reader: free } = await startRun(server, body, { key: op.key });
    expect((await free.rest()).map(({ data }) => data['type'])).not.toContain('approval_requested');
  });

  it('cannot be bypassed by grants and allow rules of others', async () => {
    const whole = { tool: 'send_note', scope: 'tenant' };
    const byEve = await server.request('/v1/grants', { key: eve.key, body: whole });
    expect(await byEve.json()).toMatchObject({ code: 'scope_required' });
    const exact = { to: 'operator', text: 'let me' };
    for (const body of [
      { tool: 'send_note', exact, scope: 'tenant' },
      { tool: 'send_note', params: { text: 'let*' }, scope: 'tenant' },
    ]) {
      const refused = await server.request('/v1/grants', { key: eve.key, body });
      expect([refused.status, await refused.json()]).toMatchObject([
        403,
        { code: 'not_an_approver' },
      ]);
    }
    for (const permissions of [
      { allowlist: [{ tool: 'send_note' }] },
      { allowOnce: [{ tool: 'send_note', exact }] },
    ]) {
      const request = { input: 'notify let me', permissions };
      const { reader, runId } = await startRun(server, request, { key: eve.key });
      await reader.until('approval_requested');
      await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      await reader.rest();
    }
    const explained = await server.json('/v1/permissions/explain', {
      key: eve.key,
      body: {
        tool: 'send_note',
        params: exact,
        permissions: { allowlist: [{ tool: 'send_note' }] },
      },
    });
    expect(explained).toMatchObject({ decision: 'ask', approvers: { groups: ['release'] } });
    expect(explained['reason']).toContain('2 persons in the group release');
  });

  it('are not bypassed by a grant from before the rule', async () => {
    await setApprovers();
    const body = { tool: 'send_note', params: { text: 'from bef*' }, scope: 'tenant' };
    expect((await server.request('/v1/grants', { key: eve.key, body })).status).toBe(201);
    const free = await startRun(server, { input: 'notify from before' }, { key: eve.key });
    expect((await free.reader.rest()).some(({ data }) => data['type'] === 'done')).toBe(true);
    await setApprovers(release);
    const { decide, reader } = await asking('from before', eve);
    await decide(ada, { approved: false });
    await reader.rest();
  });

  it('need the scope admin too for a grant of a whole tool for the tenant', async () => {
    await setApprovers();
    const everything = ['{*,x}', '?(x)*', '@(*|x)', '[a-z]*', '[^x]*', '* *', './**', 'https://**'];
    for (const params of [
      undefined,
      {},
      { text: '*' },
      { text: '**', to: '*' },
      ...everything.map((text) => ({ text })),
    ]) {
      const body = { tool: 'send_note', scope: 'tenant', params };
      const refused = await server.request('/v1/grants', { key: eve.key, body });
      expect([refused.status, await refused.json()]).toMatchObject([
        403,
        { code: 'scope_required' },
      ]);
    }
    const body = { tool: 'send_note', scope: 'tenant' };
    const made = (await server.json('/v1/grants', { body })) as { id: string };
    await server.request(`/v1/grants/${made.id}`, { method: 'DELETE' });
  });

  it('vote again with a new key after the key of their vote has ended', async () => {
    const cleo = await person({ owner: 'cleo', scopes: approve, groups: ['release'] });
    const { decide, reader, sent, id } = await asking('voted twice');
    await decide(cleo);
    const rotated = (await server.json(`/v1/keys/${cleo.keyId}/rotate`, {
      body: { overlapSeconds: 0 },
    })) as { id: string; apiKey: string };
    const decidable = '/v1/approvals?decidable=true&limit=200';
    const listed = await server.json(decidable, { key: rotated.apiKey });
    expect((listed['approvals'] as { id: string }[]).map((each) => each.id)).toContain(id);
    const again = await decide({ key: rotated.apiKey, keyId: rotated.id });
    expect(again.body).toMatchObject({ status: 'pending', votes: [{ by: { id: rotated.id } }] });
    expect((await decide(ben)).body).toMatchObject({ status: 'approved' });
    await reader.rest();
    expect(sent()).toBe(1);
  });

  it('list what they can still decide', async () => {
    const { decide, reader, id } = await asking('decidable');
    const listed = async ({ key }: Person) => {
      const query = '/v1/approvals?decidable=true&limit=200';
      const { approvals } = (await server.json(query, { key })) as { approvals: { id: string }[] };
      return approvals.some((each) => each.id === id);
    };
    expect([await listed(ada), await listed(ben), await listed(eve)]).toEqual([true, true, false]);
    await decide(ada);
    expect([await listed(ada), await listed(ben)]).toEqual([false, true]);
    await decide(ben);
    await reader.rest();
    expect(await listed(ben)).toBe(false);
  });

  it('vote in a chat, whose stream goes on when they agree', async () => {
    const chat = await startChat(server, 'notify chat votes', { key: op.key });
    const { data } = await chat.reader.until('relay');
    const answer = { approvalId: data['id'], response: { approved: true } };
    const refused = await answerApproval(server, chat, answer, { key: eve.key });
    expect([refused.status, await refused.json()]).toMatchObject([
      403,
      { code: 'not_an_approver' },
    ]);
    for (const { key } of [ada, ben]) {
      const voted = await answerApproval(server, chat, answer, { key });
      expect([voted.status, await voted.json()]).toEqual([200, { success: true }]);
    }
    await chat.reader.rest();
    expect(server.notes().filter((line) => line.includes('chat votes'))).toHaveLength(1);
  });

  it('vote by tool-approval, which answers that the run still waits', async () => {
    const { runId, reader } = await startApiChat(server, 'notify runtime votes', { key: op.key });
    await untilStatus(server, runId, 'waiting');
    const body = { runId, toolCallId: 'call_1', action: 'approve' };
    expect(await decideCall(server, body, { key: eve.key })).toMatchObject({
      code: 403,
      body: { code: 'not_an_approver' },
    });
    expect(await decideCall(server, body, { key: ada.key })).toMatchObject({
      code: 200,
      body: { ok: true, status: 'waiting', events: [] },
    });
    expect(await decideCall(server, body, { key: ben.key })).toMatchObject({
      code: 200,
      body: { ok: true, status: 'succeeded' },
    });
    await reader.rest();
  });

  it('see votes in the feed', async () => {
    const { decide, reader, id } = await asking('in the feed');
    const stop = new AbortController();
    const feed = await server.request('/v1/feed', { signal: stop.signal });
    const body = feed.body?.pipeThrough(new TextDecoderStream()).getReader();
    await decide(ada);
    let seen = '';
    while (!seen.includes(id)) seen += (await body?.read())?.value ?? '';
    stop.abort();
    await decide(ben, { approved: false });
    await reader.rest();
  });
});

describe('a rule about approvers', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  it('is refused if it can never be met, or names more than one kind of approvers', async () => {
    const ada = await addKey(server.store, { owner: 'ada' });
    const again = await addKey(server.store, { owner: 'ada' });
    const viewer = await addKey(server.store, { scopes: ['read'] });
    const revoked = await addKey(server.store, { revokedAt: 1 });
    const tool = 'deploy';
    const cases: readonly [Json, string][] = [
      [{ tool, keys: [ada.keyId], quorum: 2 }, 'approvers[0].quorum'],
      [{ tool, keys: [ada.keyId, again.keyId], quorum: 2 }, 'approvers[0].quorum'],
      [{ tool, keys: [crypto.randomUUID()] }, 'approvers[0].keys[0]'],
      [{ tool, keys: [ada.keyId, viewer.keyId] }, 'approvers[0].keys[1]'],
      [{ tool, keys: [revoked.keyId] }, 'approvers[0].keys[0]'],
      [{ tool, roles: ['admin'], groups: ['ops'] }, 'approvers[0].groups'],
      [{ tool, roles: ['boss'] }, 'approvers[0].roles[0]'],
      [{ tool, groups: [] }, 'approvers[0].groups'],
      [{ tool, quorum: 11 }, 'approvers[0].quorum'],
      [{ tool, quorum: 0 }, 'approvers[0].quorum'],
      [{ tool, params: { env: '!prod' } }, 'approvers[0].params.env'],
      [{ tool, exact: {} }, 'approvers[0].exact'],
    ];
    for (const [rule, path] of cases) {
      for (const target of ['/v1/policy', '/v1/policy/preview']) {
        const response = await server.request(target, {
          method: target === '/v1/policy' ? 'PUT' : 'POST',
          body: target === '/v1/policy' ? { version: 0, approvers: [rule] } : { approvers: [rule] },
        });
        const body = (await response.json()) as { details?: { path: string }[] };
        expect([rule, response.status, body.details?.[0]?.path]).toEqual([rule, 400, path]);
      }
    }
  });

  it('is previewed: calls that others allowed would be asked about', async () => {
    const eve = await addKey(server.store, { owner: 'eve' });
    const permissions = { allowlist: [{ tool: 'send_note' }] };
    const run = { input: 'notify preview', permissions };
    const { runId, reader } = await startRun(server, run, { key: eve.apiKey });
    await reader.rest();
    const body = { approvers: [{ tool: 'send_note', groups: ['release'] }] };
    expect(await server.json('/v1/policy/preview', { body })).toMatchObject({
      changed: 1,
      changes: [{ runId, was: 'allow', now: 'ask' }],
    });
    const mine = { approvers: [{ tool: 'send_note', roles: ['admin'] }] };
    expect(await server.json('/v1/policy/preview', { body: mine })).toMatchObject({ changed: 0 });
  });
});
