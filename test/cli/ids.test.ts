/** The ids that people type: whole, in part, `latest`, or chosen from a list. */
import { relayBin, values } from '../support/cli.ts';
import { TmuxTerminal, tmuxProblem } from '../support/tmux.ts';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { cliFixture, waitingNote } from './fixture.ts';

const fixture = cliFixture();
const { run } = fixture;

async function finished(input: string): Promise<string> {
  const { id } = await (await fixture.client.runs.create({ model: 'demo', input })).result();
  return id;
}

test('a command takes the beginning or the end of an id, or latest', async () => {
  await finished('say 1');
  const id = await finished('say 2');
  for (const given of [id, id.toUpperCase(), id.slice(0, 30), id.slice(-8), 'latest']) {
    const [shown] = values<{ id: string }>(await run('runs', 'show', given, '--json'));
    expect(shown?.id, given).toBe(id);
  }
  const { conversationId } = await fixture.client.runs.get(id);
  const listed = await run('runs', 'list', '--conversation', conversationId.slice(-8), '--json');
  expect(values<{ id: string }>(listed).map((each) => each.id)).toEqual([id]);
});

test('an ambiguous id is an error that lists what it could be', async () => {
  const ids = [await finished('say 1'), await finished('say 2')];
  const failed = await run('runs', 'show', ids[0]?.slice(0, 4) ?? '');
  expect(failed).toMatchObject({ code: 2, out: '' });
  expect(failed.err).toMatch(/is part of the ids of .* runs \[ambiguous_id\]/);
  for (const id of ids) expect(failed.err).toContain(id.slice(-8));
  expect(failed.err).toMatch(/completed +assistant +say 2/);
  const asJson = await run('runs', 'show', ids[0]?.slice(0, 4) ?? '', '--json');
  const { code, candidates } = JSON.parse(asJson.err) as { code: string; candidates: string[] };
  expect(code).toBe('ambiguous_id');
  expect(candidates.length).toBeGreaterThan(1);
});

test('an unknown, wrong or missing id says what to do', async () => {
  const unknown = await run('runs', 'show', 'ffffffff');
  expect(unknown.code).toBe(3);
  expect(unknown.err).toContain('No run has an id that begins or ends with ffffffff');
  const wrong = await run('runs', 'show', 'my-run');
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain('"relay runs list" shows them');
  const missing = await run('runs', 'show');
  expect(missing.code).toBe(2);
  expect(missing.err).toContain('Name a run [usage]');
  expect((await run('actions', 'status')).code).toBe(2);
});

test('an approval is decided by the end of its id, but by latest only where it is shown', async () => {
  const one = await waitingNote(fixture, 'one');
  const two = await waitingNote(fixture, 'two');
  expect(await run('approvals', 'approve', two.approvalId.slice(-8))).toMatchObject({ code: 0 });
  for (const args of [['approve'], ['approve', 'latest'], ['deny', 'latest']]) {
    const refused = await run('approvals', ...args);
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect(refused.err).toContain('Name the approval to decide by its id');
  }
  expect((await run('approvals', 'show', 'latest')).out).toContain(one.approvalId);
  expect(await fixture.client.approvals.get(one.approvalId)).toMatchObject({ status: 'pending' });
  await run('approvals', 'deny', one.approvalId);
});

test('a session that does not exist is an error that names those like it', async () => {
  await fixture.client.sessions.create({ harness: 'native', handle: 'builder', model: 'demo' });
  const failed = await run('sessions', 'send', 'bulder', 'hi');
  expect(failed.code).toBe(3);
  expect(failed.err).toContain(
    'No session has the handle bulder [not_found] – did you mean @builder?',
  );
  const { id } =
    values<{ id: string }>(await run('sessions', 'show', 'builder', '--json'))[0] ?? {};
  const [byEnd] = values(await run('sessions', 'show', id?.slice(-8) ?? '', '--json'));
  expect(byEnd).toMatchObject({ id });
});

describe.skipIf(tmuxProblem() !== undefined)('on a terminal', () => {
  let terminal: TmuxTerminal | undefined;
  afterEach(() => terminal?.close());

  test('tables show the ends of ids, and a missing id is chosen from a list', async () => {
    await finished('say 1');
    const id = await finished('say 2');
    const env = { RELAY_URL: fixture.server.url, RELAY_API_KEY: fixture.server.apiKey };
    const command = `node ${relayBin} runs list --limit 2`;
    terminal = new TmuxTerminal({ command, cwd: '/', env, columns: 80 });
    const { until } = screenOf(terminal);
    await until((screen) => screen.includes(`\n${id.slice(-8)}  completed`));
    expect(terminal.screen).not.toContain(id);
    await until((screen) => /\n2 of \d+; more: --limit 4\n/.test(screen));
    terminal.line(`node ${relayBin} runs show`);
    await until((screen) => screen.includes('Which run?'));
    terminal.press('Enter');
    await until((screen) => screen.includes(id));
  });

  test('an approval that was not named is shown as a whole before it is decided', async () => {
    const text = `${'much text '.repeat(30)}and rm -rf`;
    const { approvalId } = await waitingNote(fixture, text);
    const env = { RELAY_URL: fixture.server.url, RELAY_API_KEY: fixture.server.apiKey };
    const open = (args: string) => {
      const command = `node ${relayBin} approvals approve ${args}`;
      const opened = new TmuxTerminal({ command, cwd: '/', env, columns: 80 });
      terminal = opened;
      return { terminal: opened, ...screenOf(opened) };
    };
    const status = async () => (await fixture.client.approvals.get(approvalId)).status;
    const chosen = open('');
    await chosen.until((screen) => screen.includes('Which pending approval?'));
    chosen.terminal.press('Enter');
    await chosen.until((screen) => screen.includes('Approve it?'));
    expect(chosen.terminal.screen).toContain('send_note needs approval:');
    expect(chosen.terminal.screen).toContain('and rm -rf');
    chosen.terminal.press('Enter');
    await chosen.until((screen) => screen.includes('Nothing was decided'));
    expect(await status()).toBe('pending');
    chosen.terminal.close();
    const edited = JSON.stringify({ to: 'ada', text: 'Better words' });
    const latest = open(`latest --input '${edited}'`);
    await latest.until((screen) => screen.includes('Approve it?'));
    // What is confirmed is what runs.
    expect(latest.terminal.screen).toMatch(/these arguments instead:[^]*Better words/);
    latest.terminal.press('y');
    await latest.until((screen) => screen.includes('send_note is approved.'));
    expect(await status()).toBe('approved');
    latest.terminal.close();
    const none = open('latest');
    await none.until((screen) => screen.includes('There is no pending approval'));
  });
});

function screenOf(terminal: TmuxTerminal) {
  return {
    until: (test: (screen: string) => boolean) =>
      vi.waitUntil(() => test(terminal.screen), { timeout: 20_000, interval: 50 }),
  };
}
