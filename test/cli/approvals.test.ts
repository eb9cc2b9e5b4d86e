import { expect, onTestFinished, test } from 'vitest';
import { relay, values } from '../support/cli.ts';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';
import { cliFixture, waitingNote } from './fixture.ts';

const fixture = cliFixture();
const { run } = fixture;
const notes = () => fixture.server.notes.map(({ text }) => text);

test('approvals list shows pending approvals, and show prints the details', async () => {
  expect((await run('approvals', 'list')).err).toContain('No pending approvals.');
  const { approvalId, runId } = await waitingNote(fixture, 'open');
  const list = await run('approvals', 'list');
  expect(list.out).toMatch(new RegExp(`${approvalId} +pending +permission`));
  const shown = await run('approvals', 'show', approvalId);
  for (const text of [runId, 'send_note {', '"text": "open"']) expect(shown.out).toContain(text);
  const [approval] = values(await run('approvals', 'show', approvalId, '--json'));
  expect(approval).toMatchObject({ id: approvalId, status: 'pending', tool: 'send_note' });
  await run('approvals', 'deny', approvalId);
});

test('approvals approve runs the call once; deny passes the reason to the agent', async () => {
  const yes = await waitingNote(fixture, 'yes');
  const approved = await run('approvals', 'approve', yes.approvalId);
  expect(approved).toMatchObject({ code: 0, out: 'send_note is approved.\n' });
  expect((await run('runs', 'tail', yes.runId)).out).toContain('The note was sent.');
  expect(notes()).toContain('yes');
  const no = await waitingNote(fixture, 'no');
  const denied = await run('approvals', 'deny', no.approvalId, '--reason', 'not today', '--json');
  expect(values(denied)[0]).toMatchObject({ status: 'denied', reason: 'not today' });
  expect((await run('runs', 'tail', no.runId)).out).toContain('denied (not today)');
  expect(notes()).not.toContain('no');
});

test('a second, different decision is a conflict; the same decision is not', async () => {
  const { approvalId } = await waitingNote(fixture, 'first decision wins');
  expect((await run('approvals', 'deny', approvalId)).code).toBe(0);
  expect((await run('approvals', 'deny', approvalId)).code).toBe(0);
  const late = await run('approvals', 'approve', approvalId);
  expect(late).toMatchObject({ code: 5, out: '' });
  expect(late.err).toMatch(/was already denied by you .* \[approval_conflict\]/);
});

test('approvals approve accepts other arguments, and creates grants with --always', async () => {
  const { approvalId, runId } = await waitingNote(fixture, 'draft');
  const input = JSON.stringify({ to: 'operator', text: 'edited' });
  const options = ['--always', '--scope', 'tenant', '--uses', '3', '--expires', '2d'];
  const done = await run('approvals', 'approve', approvalId, '--input', input, ...options);
  expect(done.code).toBe(0);
  const tailed = await run('runs', 'tail', runId);
  expect(tailed.code).toBe(0);
  expect(tailed.out).toContain(`→ changed by the approver to ${JSON.stringify(JSON.parse(input))}`);
  const listed = await run('approvals', 'list', '--run', runId, '--all');
  expect(listed.out).toContain('"edited"');
  expect(listed.out).not.toContain('"draft"');
  expect(notes()).toContain('edited');
  expect(notes()).not.toContain('draft');
  const [grant] = values(await run('grants', 'list', '--json'));
  expect(grant).toMatchObject({ tool: 'send_note', scope: 'tenant', uses: 3 });
  expect((await run('grants', 'revoke', String(grant?.['id']))).code).toBe(0);
});

test('approvals approve --always says that a rule still demands an approval of each call', async () => {
  const asking = await fixture.client.runs.create({
    model: 'demo',
    input: 'notify each time',
    tools: [{ name: 'send_note', kind: 'builtin' }],
    permissions: { ask: [{ tool: 'send_note' }] },
  });
  let approvalId = '';
  for await (const event of asking) {
    if (event.type !== 'approval_requested') continue;
    approvalId = event.id;
    break;
  }
  const { err } = await run('approvals', 'approve', approvalId, '--always');
  expect(err).toContain('--always stores a grant, but calls like this one still need an approval.');
  const [grant] = values(await run('grants', 'list', '--json'));
  expect(grant).toMatchObject({ tool: 'send_note' });
  expect((await run('grants', 'revoke', String(grant?.['id']))).code).toBe(0);
});

test('invalid options are rejected before anything is sent', async () => {
  const { approvalId } = await waitingNote(fixture, 'untouched');
  expect(await run('approvals', 'approve', approvalId, '--scope', 'tenant')).toMatchObject({
    code: 2,
  });
  expect(await run('approvals', 'approve', approvalId, '--input', '{not json')).toMatchObject({
    code: 2,
  });
  expect(values(await run('approvals', 'show', approvalId, '--json'))[0]?.['status']).toBe(
    'pending',
  );
  const wrong = await run('approvals', 'approve', approvalId, '--input', '{"to": 1}');
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain('[tool_input_invalid]');
  expect(values(await run('approvals', 'show', approvalId, '--json'))[0]?.['status']).toBe(
    'pending',
  );
  await run('approvals', 'deny', approvalId);
});

test('grants are previewed, added, listed and revoked', async () => {
  const rule = ['send_note', '--param', 'to=operator', '--param', 'text=deploy*'];
  await run('approvals', 'deny', (await waitingNote(fixture, 'deploy 1')).approvalId);
  const preview = await run('grants', 'preview', ...rule);
  expect(preview.err).toMatch(/It would have allowed 1 of the last \d+ requests/);
  expect(preview.out).toContain('deploy 1');
  expect(values(await run('grants', 'preview', ...rule, '--json'))[0]).toMatchObject({
    matched: 1,
  });
  const added = await run('grants', 'add', ...rule, '--expires', '1h', '--json');
  const [grant] = values<{ id: string }>(added);
  expect(grant).toMatchObject({ params: { to: 'operator', text: 'deploy*' }, scope: 'tenant' });
  const allowed = await fixture.client.runs.create({
    model: 'demo',
    input: 'notify deploy 2',
    tools: [{ name: 'send_note', kind: 'builtin' }],
  });
  expect(await allowed.text()).toBe('The note was sent.');
  expect((await run('grants', 'list')).out).toContain(grant?.id);
  expect((await run('grants', 'revoke', grant?.id ?? '')).code).toBe(0);
  expect((await run('grants', 'list')).err).toContain('No active grants.');
  expect((await run('grants', 'list', '--all')).out).toMatch(new RegExp(`${grant?.id} +revoked`));
});

test('grants reject contradictory options', async () => {
  for (const args of [
    ['--param', 'novalue'],
    ['--param', 'a=b', '--exact', '{}'],
    ['--scope', 'run'],
    ['--scope-id', '01234567-89ab-7def-8123-456789abcdef'],
    ['--expires', 'soon'],
  ]) {
    expect(await run('grants', 'add', 'send_note', ...args), args.join(' ')).toMatchObject({
      code: 2,
      out: '',
    });
  }
  const bad = await run('grants', 'add', 'send_note', '--param', 'to=!x');
  expect(bad).toMatchObject({ code: 2 });
  expect(bad.err).toContain('[invalid_pattern]');
});

test('explain says what the rules make of a call, and why', async () => {
  const params = JSON.stringify({ to: 'eve', text: 'hi' });
  const asked = await run('explain', 'send_note', '--params', params);
  expect(asked).toMatchObject({ code: 0 });
  expect(asked.out).toMatch(/^ask {2}/);
  const rules = JSON.stringify({ denylist: [{ tool: 'send_note', params: { to: 'eve' } }] });
  const denied = await run(
    'explain',
    'send_note',
    '--params',
    params,
    '--permissions',
    rules,
    '--json',
  );
  expect(values(denied)[0]).toMatchObject({ decision: 'deny', rule: { list: 'denylist' } });
  const own = ['explain', 'delete_user', '--function', '--json'];
  expect(values(await run(...own))[0]).toMatchObject({ decision: 'allow' });
  expect(values(await run(...own, '--needs-approval'))[0]).toMatchObject({
    decision: 'ask',
    rule: { list: 'needsApproval' },
  });
});

test('approvals show who may approve and count votes, and policy shows and keeps approvers', async () => {
  const keyOf = async (owner: string) => {
    const { apiKey } = await fixture.client.keys.create({
      name: owner,
      owner,
      scopes: ['read', 'approve'],
      groups: ['release'],
    });
    return { env: { RELAY_API_KEY: apiKey } };
  };
  const [ada, ben] = [await keyOf('ada'), await keyOf('ben')];
  const rule = { tool: 'send_note', groups: ['release'], quorum: 2 };
  const document = { stdin: JSON.stringify({ approvers: [rule] }) };
  const set = await fixture.runIn(document, 'policy', 'set');
  expect(set).toMatchObject({ code: 0 });
  expect(set.out).toContain('1 approvers');
  expect((await run('policy', 'show')).out).toContain('2 of group release');
  const [policy] = values(await run('policy', 'show', '--json'));
  const again = await fixture.runIn({ stdin: JSON.stringify(policy) }, 'policy', 'set');
  expect(again.out).toContain('has not changed');

  const { approvalId, runId } = await waitingNote(fixture, 'two approvals');
  const list = (options: typeof ada) => fixture.runIn(options, 'approvals', 'list', '--mine');
  expect((await list(ada)).out).toMatch(new RegExp(`${approvalId} +pending +0 of 2`));
  const refused = await run('approvals', 'approve', approvalId);
  expect(refused).toMatchObject({ out: '' });
  expect(refused.err).toContain('2 persons in the group release');
  const input = JSON.stringify({ to: 'operator', text: 'two edited' });
  const voted = await fixture.runIn(ada, 'approvals', 'approve', approvalId, '--input', input);
  expect(voted).toMatchObject({
    code: 0,
    out: 'Your approval counts. send_note still waits: 1 of 2 approvals.\n',
  });
  expect((await list(ada)).out).not.toContain(approvalId);
  const shown = await fixture.runIn(ben, 'approvals', 'show', approvalId);
  for (const text of ['1 of 2', 'group release', 'ada', 'two edited', 'two approvals']) {
    expect(shown.out).toContain(text);
  }
  expect(shown.err).toMatch(/approvals approve \S+ --digest \S+\n$/);
  const blind = await fixture.runIn(ben, 'approvals', 'approve', approvalId);
  expect(blind).toMatchObject({ code: 5 });
  expect(blind.err).toContain('[approval_changed]');
  const [approval] = values(await fixture.runIn(ben, 'approvals', 'show', approvalId, '--json'));
  const digest = ['--digest', String(approval?.['executedDigest'])];
  const last = await fixture.runIn(ben, 'approvals', 'approve', approvalId, ...digest);
  expect(last).toMatchObject({ code: 0, out: 'send_note is approved.\n' });
  await run('runs', 'tail', runId);
  expect(notes()).toContain('two edited');
  await fixture.runIn({ stdin: '{"approvers": []}' }, 'policy', 'set');
});

test('approvals approve refuses an unknown outcome and names the answers, which approvals answer takes', async () => {
  const held = new TestServer({}, 'test/support/servers/blocking-tools.ts');
  onTestFinished(() => held.dispose());
  await held.start({ TEST_HOLD: 'yes' });
  const texts = ['completed', 'null', 'failed', 'no reason', 'rerun'];
  const payments = (text: string) => held.notes.filter((note) => note.text === text).length;
  for (const text of texts) {
    const body = { model: 'demo', input: `use pay {"text":"${text}"}` };
    const tools = [{ name: 'pay', kind: 'builtin' }];
    const response = await held.request('/v1/runs', { body: { ...body, tools } });
    await response.body?.cancel();
    await until(async () => payments(text) === 1, text);
  }
  await held.kill();
  await held.start();
  const cli = (...args: readonly string[]) =>
    relay(args, { env: { RELAY_URL: held.url, RELAY_API_KEY: held.apiKey } });
  type Asked = { id: string; runId: string; params: { text: string } };
  const pending = await until(async () => {
    const open = values(await cli('approvals', 'list', '--json')) as unknown as Asked[];
    return open.length === texts.length ? open : undefined;
  }, 'the questions');
  const idOf = (text: string) => pending.find(({ params }) => params.text === text)?.id ?? '';
  const shown = await cli('approvals', 'show', idOf('rerun'));
  expect(shown.out).toContain(
    'started before a crash or a stop of the server and may have taken effect',
  );
  expect(shown.out).toMatch(/idempotency key +[0-9a-f-]{36}:call_/);
  const tailed = cli('runs', 'tail', pending.find(({ id }) => id === idOf('rerun'))?.runId ?? '');

  for (const args of [[], ['--reason', 'ok'], ['--always']]) {
    const refused = await cli('approvals', 'approve', idOf('rerun'), ...args);
    expect(refused).toMatchObject({ code: 2, out: '' });
    for (const flag of ['--rerun', '--completed JSON', '--failed']) {
      expect(refused.err).toContain(flag);
    }
  }
  for (const args of [[], ['--rerun', '--failed'], ['--completed', '{not json']]) {
    expect(await cli('approvals', 'answer', idOf('rerun'), ...args)).toMatchObject({ code: 2 });
  }
  expect(payments('rerun')).toBe(1);

  const answers = [
    ['completed', ['--completed', '{"paid": true}'], 'pay is recorded as completed.\n'],
    ['null', ['--completed', 'null'], 'pay is recorded as completed.\n'],
    ['failed', ['--failed', 'No trace'], 'pay is recorded as failed.\n'],
    ['no reason', ['--failed'], 'pay is recorded as failed.\n'],
    ['rerun', ['--rerun'], 'pay runs again.\n'],
  ] as const;
  for (const [text, args, out] of answers) {
    expect(await cli('approvals', 'answer', idOf(text), ...args)).toMatchObject({ code: 0, out });
  }
  expect(values(await cli('approvals', 'show', idOf('null'), '--json'))[0]).toMatchObject({
    output: null,
  });
  expect(values(await cli('approvals', 'show', idOf('failed'), '--json'))[0]).toMatchObject({
    outcome: 'failed',
    reason: 'No trace',
  });
  expect((await tailed).out).toContain('(--completed JSON | --failed [REASON] | --rerun)');
  expect(texts.map(payments)).toEqual([1, 1, 1, 1, 2]);
}, 60_000);
