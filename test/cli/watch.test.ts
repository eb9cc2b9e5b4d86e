/** Commands that follow what happens, on a real terminal. */
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { relayBin, values } from '../support/cli.ts';
import { TestServer } from '../support/server.ts';
import { TmuxTerminal, tmuxProblem } from '../support/tmux.ts';
import { cliFixtureOf, waitingNote } from './fixture.ts';

const fixture = cliFixtureOf(new TestServer());
const { run } = fixture;

test('approvals watch and its prompt need a terminal', async () => {
  const failed = await run('approvals', 'watch');
  expect(failed).toMatchObject({ code: 2, out: '' });
  expect(failed.err).toContain('needs a terminal');
});

test('options for all runs are not for one, and the other way round', async () => {
  expect((await run('runs', 'tail', 'latest', '--agent', 'assistant')).code).toBe(2);
  expect((await run('runs', 'tail', '--after', '3')).code).toBe(2);
});

test('runs show prints a timeline with the approval and who decided it', async () => {
  const { runId, approvalId } = await waitingNote(fixture, 'the timeline');
  await run('approvals', 'approve', approvalId);
  await vi.waitUntil(async () => (await fixture.client.runs.get(runId)).status === 'completed');
  const { out } = await run('runs', 'show', runId);
  const lines = out.slice(out.indexOf('started notify')).split('\n');
  const found = (pattern: RegExp) => lines.findIndex((line) => pattern.test(line));
  const order = [
    found(/→ send_note \{"to":"operator","text":"the timeline"\}/),
    found(/turn 1 .* \d+ in, \d+ out/),
    found(/\? send_note waits for approval [0-9a-f]{8}/),
    found(/· approved by \S+ after \d/),
    found(/← send_note \d/),
    found(/turn 2 /),
    found(/completed \(\d+ in, \d+ out\) The note was sent/),
  ];
  expect(order).not.toContain(-1);
  expect(order.toSorted((a, b) => a - b)).toEqual(order);
  // Only the run, for programs.
  expect(values(await run('runs', 'show', runId, '--json'))).toHaveLength(1);
});

test('runs show and runs tail name the rule that has denied a call', async () => {
  const { id } = await fixture.client.runs.create({
    model: 'demo',
    input: 'notify nobody',
    tools: [{ name: 'send_note', kind: 'builtin' }],
    permissions: { denylist: [{ tool: 'bash' }, { tool: 'send_note' }] },
  });
  const rule = 'denied by rule 2 of denylist in the request';
  expect((await run('runs', 'tail', id)).out).toContain(`✗ ${rule}\n`);
  expect((await run('runs', 'show', id)).out).toContain(`✗ send_note ${rule}\n`);
});

describe.skipIf(tmuxProblem() !== undefined)('on a terminal', () => {
  let terminal: TmuxTerminal;
  afterEach(() => terminal.close());

  function open(command: string): void {
    const env = { RELAY_URL: fixture.server.url, RELAY_API_KEY: fixture.server.apiKey };
    terminal = new TmuxTerminal({ command: `node ${relayBin} ${command}`, cwd: '/', env });
  }

  const until = (isThere: (screen: string) => boolean) =>
    vi.waitUntil(() => isThere(terminal.screen), { timeout: 20_000, interval: 50 });

  test('approvals watch goes from one to the next, and notices decisions of others', async () => {
    const one = await waitingNote(fixture, 'first');
    const two = await waitingNote(fixture, 'second');
    open('approvals watch');
    await until((screen) => screen.includes('"first"') && screen.includes('[y]es'));
    terminal.line('y');
    await until((screen) => screen.includes('"second"'));
    expect(await fixture.client.approvals.get(one.approvalId)).toMatchObject({
      status: 'approved',
    });
    await fixture.client.approvals.deny(two.approvalId);
    await until((screen) => screen.includes('· denied by'));
    await until((screen) => screen.includes('No approval waits.'));
    await waitingNote(fixture, 'third');
    await until((screen) => screen.includes('"third"'));
    await until((screen) => screen.includes('of the next second is ignored'));
    await until((screen) => /ignored\.\n +\[y\]es/.test(screen));
    terminal.press('C-c');
    await until((screen) => screen.trimEnd().endsWith('\n$'));
  });

  test('approvals watch shows a request again when another approver has changed it', async () => {
    const { client } = fixture;
    for await (const { id } of client.approvals.list({ status: 'pending' })) {
      await client.approvals.deny(id);
    }
    const scopes = ['read', 'approve'] as const;
    const ben = await client.keys.create({ name: 'ben', owner: 'ben', scopes: [...scopes] });
    const setPolicy = (stdin: string) => fixture.runIn({ stdin }, 'policy', 'set');
    await setPolicy('{"approvers": [{"tool": "send_note", "quorum": 2}]}');
    onTestFinished(async () => void (await setPolicy('{"approvers": []}')));
    const { approvalId } = await waitingNote(fixture, 'as asked');
    open('approvals watch');
    await until((screen) => screen.includes('"as asked"') && screen.includes('so far: 0 of 2'));
    const input = JSON.stringify({ to: 'operator', text: 'as changed' });
    const env = { RELAY_API_KEY: ben.apiKey };
    await fixture.runIn({ env }, 'approvals', 'approve', approvalId, '--input', input);
    await until((screen) => screen.includes('Another approver changed the arguments'));
    await until((screen) => /asked for:[^]*"as asked"[^]*so far: 1 of 2[^]*\[y\]es/.test(screen));
    await until((screen) => /is ignored\.\n +\[y\]es/.test(screen));
    terminal.line('y');
    await until((screen) => screen.includes('· approved by'));
    await until((screen) => screen.includes('No approval waits.'));

    // Also one that this person has voted on: the change has dropped the vote.
    const { approvalId: second } = await waitingNote(fixture, 'voted on');
    await until((screen) => /"voted on"[^]*\[y\]es/.test(screen));
    terminal.line('y');
    await until((screen) => screen.includes('Your approval counts: 1 of 2'));
    await fixture.runIn({ env }, 'approvals', 'approve', second, '--input', input);
    await until((screen) => /asked for:[^]*"voted on"[^]*so far: 1 of 2/.test(screen));
    terminal.press('C-d');
    await until((screen) => screen.trimEnd().endsWith('\n$'));
  });

  test('approvals watch and runs tail go on when the server restarts', async () => {
    const { server, client } = fixture;
    const restart = async () => {
      const { port } = new URL(server.url);
      await server.stop();
      await until((screen) => screen.includes('The connection was lost'));
      await server.start({ RELAY_PORT: port });
      await until((screen) => screen.includes('Connected again.'));
    };
    for await (const { id } of client.approvals.list({ status: 'pending' })) {
      await client.approvals.deny(id);
    }
    const { approvalId } = await waitingNote(fixture, 'before the restart');
    open('approvals watch');
    await until((screen) => screen.includes('"before the restart"') && screen.includes('[y]es'));
    await restart();
    terminal.line('y');
    await until((screen) => screen.includes('· approved by'));
    expect(await client.approvals.get(approvalId)).toMatchObject({ status: 'approved' });
    terminal.close();

    open('runs tail --status completed');
    await until((screen) => screen.includes('Following all runs'));
    await restart();
    const { id } = await (await client.runs.create({ model: 'demo', input: 'say 4' })).result();
    await until((screen) => screen.includes(`${id.slice(-8)}  assistant  completed`));
    // Only the ends of runs.
    expect(terminal.screen).not.toContain('started say 4');
  }, 90_000);

  test.each([
    { command: 'chat', message: 'notify during the chat' },
    { command: 'approvals watch', message: undefined },
  ])(
    'a decision in $command reaches a server that was killed before',
    async (given) => {
      const { server, client } = fixture;
      const { port } = new URL(server.url);
      for await (const { id } of client.approvals.list({ status: 'pending' })) {
        await client.approvals.deny(id);
      }
      open(given.command);
      if (given.message === undefined) await waitingNote(fixture, 'before the crash');
      else {
        await until((screen) => screen.includes('you ›'));
        terminal.line(given.message);
      }
      await until((screen) => screen.includes('[y]es'));
      const [approval] = (await client.approvals.list({ status: 'pending' }).page()).items;
      await server.kill();
      await until((screen) => /onnection (was )?lost/.test(screen));
      terminal.line('y');
      await until((screen) => screen.includes('your decision is sent when the server accepts it'));
      await server.start({ RELAY_PORT: port });
      await until((screen) => /· approved/.test(screen));
      expect(await client.approvals.get(approval?.id ?? '')).toMatchObject({ status: 'approved' });
    },
    60_000,
  );

  test('Ctrl-C withdraws a decision that a killed server has not received, and cancels the run', async () => {
    const { server, client } = fixture;
    const { port } = new URL(server.url);
    open('chat');
    await until((screen) => screen.includes('you ›'));
    terminal.line('notify nobody after the crash');
    await until((screen) => screen.includes('[y]es'));
    const [run] = (await client.runs.list({ status: 'waiting', limit: 1 }).page()).items;
    await server.kill();
    await until((screen) => screen.includes('connection lost'));
    terminal.line('y');
    await until((screen) => screen.includes('your decision is sent when the server accepts it'));
    terminal.press('C-c');
    await until((screen) =>
      [
        '(your decision on send_note was not sent and is withdrawn)',
        'the cancellation is sent when',
      ].every((text) => screen.includes(text)),
    );
    await server.start({ RELAY_PORT: port });
    await until((screen) => screen.includes('(canceled)'));
    expect(await client.runs.get(run?.id ?? '')).toMatchObject({ status: 'canceled' });
    expect(server.notes.filter(({ text }) => text.includes('nobody'))).toEqual([]);
  }, 60_000);

  test('runs tail shows all runs with their ids until it is interrupted', async () => {
    open('runs tail');
    await until((screen) => screen.includes('Following all runs'));
    const { id } = await (
      await fixture.client.runs.create({ model: 'demo', input: 'say 2' })
    ).result();
    const end = id.slice(-8);
    await until((screen) => screen.includes(`${end}  assistant  completed`));
    expect(terminal.screen).toContain(`${end}  assistant  started say 2`);
    terminal.press('C-c');
    await until((screen) => screen.trimEnd().endsWith('\n$'));
  });
});
