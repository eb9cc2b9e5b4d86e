/** Agents, usage, the pause of a tenant, and the completion of ids. */
import { createClient } from '@relay/sdk';
import { expect, test } from 'vitest';
import { values } from '../support/cli.ts';
import { cliFixture, waitingNote } from './fixture.ts';

const fixture = cliFixture();
const { run, runIn } = fixture;

async function finished(input: string, labels: Record<string, string> = {}): Promise<string> {
  const started = await fixture.client.runs.create({ model: 'demo', input, labels });
  return (await started.result()).id;
}

test('agents lists agents and shows one', async () => {
  expect((await run('agents')).out).toContain('assistant');
  expect((await run('agents', 'show', 'assistant')).out).toMatch(/agent +assistant/);
  const unknown = await run('agents', 'show', 'nobody');
  expect(unknown.code).toBe(3);
  expect(unknown.err).toContain('"relay agents" lists all');
});

test('usage shows tokens by model and agent, or of a label', async () => {
  await finished('say 3', { customer: 'acme' });
  await finished('say 3');
  const { out } = await run('usage', '--since', '1h');
  expect(out).toMatch(/since +\S+ \d\d:00:00Z/);
  expect(out).toMatch(/cost +unknown \(\d+ runs whose model had no price\)/);
  expect(out).toMatch(/^demo( +\d+){3} +unknown$/m);
  expect(out).toMatch(/runs +\d+ started, \d+ completed/);
  expect(out).toMatch(/MODEL +RUNS +IN +OUT/);
  expect(out).toMatch(/AGENT +RUNS +IN +OUT/);
  const [total] = values(await run('usage', '--label', 'customer:acme', '--json'));
  expect(total).toMatchObject({ label: 'customer:acme', runs: 1, outputTokens: 3 });
  expect(total?.['since']).toMatch(/T00:00:00.000Z$/);
});

test('usage and status show a key what is left of its budget', async () => {
  const [made] = values(await run('keys', 'create', 'acme', '--role', 'operator', '--json'));
  const { id, apiKey } = made as { id: string; apiKey: string };
  const budgets = { keys: { [id]: { period: 'month', tokens: 1000 } } } as const;
  await fixture.client.tenant.update({ budgets });
  const own = createClient({ baseUrl: fixture.server.url, apiKey });
  await (await own.runs.create({ model: 'demo', input: 'say 3' })).result();
  const { budget } = await own.keys.current();
  const { tokens: used = 0 } = budget?.used ?? {};
  expect(used).toBeGreaterThan(3);
  expect(budget).toMatchObject({ period: 'month', tokens: 1000, left: { tokens: 1000 - used } });
  for (const command of ['usage', 'status']) {
    const { out } = await runIn({ env: { RELAY_API_KEY: apiKey } }, command);
    expect(out).toContain(`${1000 - used} of 1000 tokens left this month`);
  }
  await fixture.client.tenant.update({ budgets: {} });
  expect(await own.keys.current()).not.toHaveProperty('budget');
});

test('lists count what matches, up to a bound', async () => {
  for (let n = 0; n < 3; n += 1) await finished('say 1', { batch: 'counted' });
  const page = await fixture.client.runs
    .list({ label: 'batch:counted', limit: 2, count: 'true' })
    .page();
  expect(page).toMatchObject({ total: 3 });
  expect(page.items).toHaveLength(2);
  const whole = await fixture.client.runs.list({ label: 'batch:counted', count: 'true' }).page();
  expect(whole.total).toBe(3);
  const both = { label: 'batch:counted', status: 'completed', limit: 1, count: 'true' } as const;
  expect((await fixture.client.runs.list(both).page()).total).toBe(3);
  expect(await fixture.client.runs.list({ limit: 1 }).page()).not.toHaveProperty('total');
  // Only a person reads it.
  const piped = await run('runs', 'list', '--label', 'batch:counted', '--limit', '2');
  expect(piped.out.trimEnd().split('\n')).toHaveLength(3);
  expect(piped.err).toBe('');
});

test('pause keeps runs from starting and going on until unpause', async () => {
  const { approvalId } = await waitingNote(fixture, 'paused');
  expect((await run('pause')).out).toContain('Paused: ');
  const approved = await run('approvals', 'approve', approvalId);
  expect(approved.out).toContain('send_note is approved');
  expect(approved.err).toContain('goes on after "relay unpause"');
  const refused = await run('chat', 'say 1');
  expect(refused.err).toContain('relay unpause');
  expect((await run('unpause')).out).toContain('Unpaused: ');
  expect((await run('chat', 'say 1')).code).toBe(0);
});

test('a chat that needs a key says first that there is no server', async () => {
  const env = { RELAY_URL: 'http://127.0.0.1:9', RELAY_API_KEY: '' };
  const failed = await runIn({ env }, 'chat', '--agent', 'support', 'hi');
  expect(failed).toMatchObject({ code: 6, out: '' });
  expect(failed.err).toContain('is the server running?');
});

test('the completion offers recent ids with what they are, and nothing without a server', async () => {
  const id = await finished('say 7');
  const { approvalId } = await waitingNote(fixture, 'completed');
  const complete = (...words: readonly string[]) => run('__complete', '--', ...words);
  expect((await complete('runs', 'show', '')).out).toMatch(
    new RegExp(`^${id.slice(-8)}\\tcompleted +assistant +say 7$`, 'm'),
  );
  expect((await complete('runs', 'show', id.slice(0, 10))).out).toContain(`${id}\t`);
  expect((await complete('approvals', 'list', '--run', '')).out).toContain(id.slice(-8));
  const denied = (await waitingNote(fixture, 'denied')).approvalId;
  await fixture.client.approvals.deny(denied);
  for (const decision of ['approve', 'deny', 'answer']) {
    const { out } = await complete('approvals', decision, '');
    expect(out).toMatch(new RegExp(`^${approvalId.slice(-8)}\\tpending`, 'm'));
    expect(out).not.toContain(denied.slice(-8));
  }
  const all = (await complete('approvals', 'show', '')).out;
  expect(all).toMatch(new RegExp(`^${approvalId.slice(-8)}\\tpending`));
  expect(all).toMatch(new RegExp(`^${denied.slice(-8)}\\tdenied`, 'm'));
  expect((await complete('chat', '--model', 'de')).out).toBe('demo\tdemo\n');
  expect((await complete('chat', '--agent', 'ass')).out).toMatch(/^assistant\t/);
  const env = { RELAY_URL: 'http://127.0.0.1:9' };
  expect(await runIn({ env }, '__complete', '--', 'runs', 'show', '')).toEqual({
    code: 0,
    out: '',
    err: '',
  });
});

test('a memory search without results says where it searched, and where memories are', async () => {
  await run('memories', 'add', 'Releases go out on Tuesdays', '--namespace', 'team');
  const { err } = await run('memories', 'search', 'release');
  expect(err).toContain('No memory in the namespace default matches. Others: team.');
});
