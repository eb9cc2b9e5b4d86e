import { PassThrough } from 'node:stream';
import {
  type AttachedSession,
  createClient,
  type Delivery,
  type Session,
  type SessionMessage,
  type SessionSnapshot,
} from '@relay/sdk';
import { expect, test } from 'vitest';
import { runCli } from '../../packages/cli/src/main.ts';
import { values } from '../support/cli.ts';
import { until } from '../support/kernel.ts';
import { cliFixture } from './fixture.ts';

const fixture = cliFixture();
const { run } = fixture;

let handles = 0;
const fresh = (name: string) => `${name}-${(handles += 1)}`;

/** A session of a program, which no program serves: it keeps what it gets. */
/** A session without the stream on which its program would receive. */
function attach(name: string): Promise<AttachedSession> {
  return fixture.client.sessions.attach({
    handle: fresh(name),
    identity: { name, kind: 'program' },
    capabilities: {
      actions: { invoke: true, expose: true },
      messaging: { receive: true },
      delivery: { modes: ['on-idle', 'manual'], queue: true },
      events: { emits: ['status.changed'] },
      lifecycle: { release: true },
    },
  });
}

async function attached(name: string): Promise<Session> {
  return (await attach(name)).session;
}

/** The CLI with a person at it, who reads and writes while it runs. */
function person(...args: readonly string[]) {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const texts = { out: '', err: '' };
  stdout.on('data', (chunk: Buffer) => (texts.out += chunk.toString()));
  stderr.on('data', (chunk: Buffer) => (texts.err += chunk.toString()));
  const env = { RELAY_URL: fixture.server.url, RELAY_API_KEY: fixture.server.apiKey };
  const exit = runCli(args, { env, cwd: '/nowhere', stdin, stdout, stderr });
  return {
    texts,
    exit,
    write: (line: string) => stdin.write(`${line}\n`),
    leave: () => void stdin.end(),
    shows: (text: string) => expect.poll(() => texts.out, { timeout: 30_000 }).toContain(text),
    notes: (text: string) => expect.poll(() => texts.err, { timeout: 30_000 }).toContain(text),
  };
}

test('sessions start takes a harness with --handle', async () => {
  const handle = fresh('builder');
  const started = await run('sessions', 'start', 'native', '--handle', handle, '--model', 'demo');
  expect(started.out).toContain(`@${handle} is idle`);
  const twice = ['--handle', fresh('builder'), '--harness', 'native'];
  expect(await run('sessions', 'start', 'native', ...twice)).toMatchObject({ code: 2 });
});

test('sessions start begins a native session, and send waits until its message is consumed', async () => {
  const handle = fresh('builder');
  const started = await run('sessions', 'start', handle, '--model', 'demo', '--label', 'team:a');
  expect(started).toMatchObject({ code: 0 });
  expect(started.out).toContain(`@${handle} is idle`);
  const sent = await run('sessions', 'send', handle, 'say', '3', '--wait', 'consumed');
  expect(sent.out).toMatch(new RegExp(`^Sent [0-9a-f-]{36}: @${handle} consumed\\.\\n$`));
  // The message is consumed when the turn starts; its answer comes later.
  const show = async () =>
    values<Session>(await run('sessions', 'show', `@${handle}`, '--json'))[0];
  const session = await until(async () => {
    const now = await show();
    return now?.status === 'idle' ? now : undefined;
  }, 'the end of the turn');
  const shown = await run('sessions', 'show', handle, '--events');
  for (const text of [handle, 'native', 'team:a', 'transcript.chunk', 'agent: 1 2 3']) {
    expect(shown.out).toContain(text);
  }
  expect(values<Session>(await run('sessions', 'show', session.id, '--json'))).toEqual([session]);
  const list = await run('sessions', 'list', '--label', 'team:a');
  expect(list.out).toMatch(/^HANDLE +STATUS +KIND +HARNESS +QUEUE +ACTIVE +SESSION\n/);
  expect(list.out).toContain(session.id);
});

test('sessions tail follows the events until the session is released', async () => {
  const handle = fresh('followed');
  const body = { harness: 'human', handle };
  const { id, identity, lastSeq } = await fixture.client.sessions.create(body);
  const tail = person('sessions', 'tail', identity.handle, '--after', '0');
  const { id: messageId } = await fixture.client.messages.send({
    to: `@${identity.handle}`,
    text: 'Hi',
  });
  await tail.shows(`delivery.accepted  message ${messageId}`);
  const last = person('sessions', 'tail', id, '--json', '--after', String(lastSeq));
  await last.shows('delivery.accepted');
  expect(JSON.parse(last.texts.out.split('\n')[0] ?? '')).toMatchObject({ seq: lastSeq + 1 });
  await fixture.client.sessions.release(id);
  expect([await tail.exit, await last.exit]).toEqual([0, 0]);
  expect(tail.texts.out).toContain('session.released');
});

test('commands act on sessions by handle, and say why one cannot', async () => {
  const { id, identity } = await attached('commanded');
  const { handle } = identity;
  const paused = await run('sessions', 'pause', handle);
  expect(paused).toMatchObject({ code: 5, out: '' });
  expect(paused.err).toContain(`@${handle}: `);
  const canceled = await run('sessions', 'cancel', handle);
  expect(canceled.out).toBe(`@${handle} is idle: it has reported no turn to cancel.\n`);
  expect(paused.err).toMatch(/lifecycle\.pause.*\[capability_missing\] – .*relay sessions show/);
  const released = await run('sessions', 'release', handle);
  expect(released.out).toBe(`Asked @${handle} to end; it is releasing.\n`);
  expect(await run('sessions', 'cancel', 'nobody')).toMatchObject({ code: 3, out: '' });
  const kept = await run('sessions', 'drop', handle);
  expect(kept).toMatchObject({ code: 2 });
  expect(kept.err).toContain('confirm with --yes');
  expect((await run('sessions', 'drop', id, '--yes')).out).toBe(`Deleted @${handle}.\n`);
  expect(await run('sessions', 'show', handle)).toMatchObject({ code: 3 });
});

test('sessions fork and snapshot continue a native session in others', async () => {
  const handle = fresh('origin');
  const [forked, early, copied] = [fresh('forked'), fresh('early'), fresh('copied')];
  const show = async (named: string) =>
    values<Session>(await run('sessions', 'show', named, '--json'))[0];
  await run('sessions', 'start', handle, '--model', 'demo');
  const before = (await show(handle))?.lastSeq ?? 0;
  await run('sessions', 'send', handle, 'say 2', '--wait', 'consumed');
  await expect.poll(async () => (await show(handle))?.status).toBe('idle');
  const { id: parentSessionId, lastSeq } = (await show(handle)) ?? { lastSeq: 0 };

  const fork = await run('sessions', 'fork', handle, '--handle', `@${forked}`);
  expect(fork).toMatchObject({ code: 0 });
  expect(fork.out).toContain(`@${forked} is idle`);
  expect(await show(forked)).toMatchObject({ parentSessionId });
  const taken = await run('sessions', 'fork', handle, '--handle', forked);
  expect(taken).toMatchObject({ code: 5 });
  expect(taken.err).toContain('[handle_taken]');
  expect(await run('sessions', 'fork', handle)).toMatchObject({ code: 2 });
  const forkAt = (seq: number) =>
    run('sessions', 'fork', handle, '--handle', early, '--seq', `${seq}`);
  expect((await forkAt(lastSeq - 1)).err).toContain('[not_a_boundary]');
  expect(await forkAt(before)).toMatchObject({ code: 0 });

  expect((await run('sessions', 'snapshot', handle)).out).toContain('--from-snapshot');
  const [snapshot] = values<SessionSnapshot>(await run('sessions', 'snapshot', handle, '--json'));
  const from = ['--from-snapshot', snapshot?.id.slice(0, 30) ?? ''];
  const started = await run('sessions', 'start', copied, ...from);
  expect(started.out).toContain(`@${copied} is idle`);
  expect(await show(copied)).toMatchObject({ parentSessionId, model: 'demo' });
});

test('messages are sent, shown, changed and withdrawn, and the queue shows what waits', async () => {
  const { identity } = await attached('inbox');
  const to = `@${identity.handle}`;
  const [message] = values<SessionMessage>(
    await run('messages', 'send', to, 'run', 'the', 'tests', '--mode', 'manual', '--json'),
  );
  const id = message?.id ?? '';
  expect(message).toMatchObject({ text: 'run the tests', mode: 'manual' });
  const queue = await run('sessions', 'queue', identity.handle);
  expect(queue.out).toMatch(/accepted +manual .*bootstrap +run the tests\n$/);
  const edited = await run('messages', 'edit', id, 'run', 'nothing');
  expect(edited.out).toBe(`Changed ${id}.\n`);
  expect(await run('messages', 'edit', id)).toMatchObject({ code: 2 });
  const shown = await run('messages', 'show', id);
  for (const text of ['run nothing', to, 'accepted', 'bootstrap'])
    expect(shown.out).toContain(text);
  expect((await run('messages', 'list', '--with', identity.handle)).out).toMatch(
    /MESSAGE +SENT +FROM +TO +STATUS +TEXT\n.* accepted +run nothing\n$/,
  );
  expect((await run('sessions', 'flush', identity.handle)).code).toBe(0);
  expect((await run('messages', 'withdraw', id)).out).toBe(`Withdrew ${id}.\n`);
  const [failed] = values<Delivery>(
    await run('sessions', 'queue', identity.handle, '--failed', '--json'),
  );
  expect(failed).toMatchObject({ messageId: id, error: { code: 'withdrawn' } });
  expect(await run('messages', 'redeliver', failed?.id ?? '')).toMatchObject({ code: 5 });
  const waiting = ['sessions', 'send', identity.handle, 'later', '--mode', 'manual'];
  const late = await run(...waiting, '--wait', 'consumed', '--timeout', '1s');
  expect(late).toMatchObject({ code: 124, err: expect.stringContaining('accepted, not consumed') });
  expect(await run(...waiting, '--timeout', '1s')).toMatchObject({ code: 2 });
  const wrong = await run('messages', 'send', identity.handle, 'x');
  expect(wrong).toMatchObject({ code: 2 });
  expect(wrong.err).toContain('@handle');
});

test('channels are created and their members changed', async () => {
  const [one, two] = [await attached('one'), await attached('two')];
  const handlesOf = [one.identity.handle, `@${two.identity.handle}`];
  expect((await run('channels', 'create', 'crew', '--topic', 'All')).out).toContain('0 members');
  expect((await run('channels', 'add', '#crew', ...handlesOf)).out).toBe('#crew has 2 members.\n');
  const sent = await run('messages', 'send', '#crew', 'Hello');
  expect(sent.out).toContain(`@${two.identity.handle} accepted`);
  expect((await run('channels', 'remove', 'crew', handlesOf[0] ?? '')).out).toContain('1 member.');
  expect((await run('channels', 'show', '#crew')).out).toContain(`@${two.identity.handle}`);
  expect((await run('channels', 'list')).out).toMatch(
    new RegExp(`#crew +.* All +@${two.identity.handle}\\n`),
  );
});

test('actions are listed, shown and invoked', async () => {
  const session = await fixture.client.sessions.serve({
    handle: fresh('counter'),
    onMessage: () => undefined,
    onError: () => undefined,
    actions: {
      add_one: {
        description: 'Adds one',
        inputSchema: { type: 'object', properties: { to: { type: 'number' } } },
        run: ({ to }: { to?: number }) => {
          if (to === undefined) throw new Error('To what?');
          return { sum: to + 1 };
        },
      },
    },
  });
  expect((await run('actions', 'list')).out).toMatch(/add_one +@counter-\d+ +everyone +Adds one\n/);
  expect((await run('actions', 'show', 'add_one')).out).toContain('"type": "object"');
  expect(await run('actions', 'show', 'none')).toMatchObject({ code: 3 });
  const invoked = await run('actions', 'invoke', 'add_one', '--input', '{"to": 2}');
  expect(invoked).toMatchObject({ code: 0, out: '{"sum":3}\n' });
  const failed = await run('actions', 'invoke', 'add_one');
  expect(failed).toMatchObject({ code: 1, out: '' });
  expect(failed.err).toContain('To what?');
  await session.close();
});

test('approvals show names the session that asks', async () => {
  const { client } = fixture;
  const name = `deploy_${fresh('x').slice(2)}`;
  const session = await client.sessions.serve({
    handle: fresh('asker'),
    capabilities: { actions: { invoke: true } },
    actions: {
      [name]: { description: 'Deploys', inputSchema: { type: 'object' }, run: () => 'done' },
    },
    onMessage: () => undefined,
  });
  const { version } = await client.policy.get();
  await client.policy.put({ version, allow: [], deny: [], ask: [{ tool: `action:${name}` }] });
  const { approvalId = '' } = await session.invoke(name, {}, { waitMs: 0 });
  const { out } = await run('approvals', 'show', approvalId);
  expect(out).toContain(`@${session.handle} (${session.id})`);
  await session.close();
});

test('actions invoke says whom it waits for, and actions status shows the result later', async () => {
  const deploy = { description: 'Deploys', inputSchema: { type: 'object' } };
  const { session: program, token } = await attach('deployer');
  const { handle } = program.identity;
  const { actions } = createClient({ baseUrl: fixture.server.url, apiKey: token });
  await actions.register({ ...deploy, name: 'deploy', handler: { sessionId: program.id } });
  const invoking = person('actions', 'invoke', 'deploy');
  await invoking.notes(`by @${handle}, which is idle; waiting up to 30 s`);
  const [, id = ''] = /invocation (\S+) is/.exec(invoking.texts.err) ?? [];
  const open = await run('actions', 'status', id);
  expect(open).toMatchObject({ code: 7, out: '' });
  expect(open.err).toContain(`relay actions status ${id}`);
  const late = await run('actions', 'invoke', 'deploy', '--timeout', '3s');
  expect(late).toMatchObject({ code: 124, out: '' });
  expect(late.err).toContain('waiting up to 3 s');
  const session = await fixture.client.sessions.serve({
    handle,
    token,
    actions: { deploy: { ...deploy, run: () => 'done' } },
    onMessage: () => undefined,
  });
  expect(await invoking.exit).toBe(0);
  expect(invoking.texts.out).toBe('"done"\n');
  expect(await run('actions', 'status', id)).toMatchObject({ code: 0, out: '"done"\n' });
  await session.close();
}, 60_000);

test('a session token lists and shows sessions', async () => {
  const other = await attached('other');
  const handle = fresh('token');
  const session = await fixture.client.sessions.serve({ handle, onMessage: () => undefined });
  const as = (...args: readonly string[]) =>
    fixture.runIn({ env: { RELAY_API_KEY: session.token } }, ...args);
  const list = await as('sessions', 'list');
  expect(list).toMatchObject({ code: 0, err: '' });
  expect(list.out).toContain(other.id);
  const shown = await as('sessions', 'show', other.identity.handle);
  expect(shown).toMatchObject({ code: 0, err: '' });
  expect(shown.out).toContain(other.id);
  expect((await as('sessions', 'show', handle)).out).toContain('remote');
  await session.close();
});

test('sessions join shows messages as they come, consumed, and sends lines to whom they name', async () => {
  const { client } = fixture;
  const ada = fresh('ada');
  const { identity } = await attached('bob');
  const bob = identity.handle;
  await client.channels.put('lobby');
  const chat = person('sessions', 'join', '--handle', ada);
  await chat.notes(`You are @${ada}.`);
  await client.channels.addMember('lobby', ada);
  const { id } = await client.messages.send({ to: '#lobby', text: 'Hello all' });
  await chat.shows('bootstrap in #lobby: Hello all\n');
  const [delivery] = await client.messages.deliveries(id, { wait: 'consumed' });
  expect(delivery).toMatchObject({ handle: ada, status: 'consumed' });
  chat.write('Hello back');
  chat.write(`@${bob} Just you`);
  chat.write('And again');
  chat.write('/who');
  await chat.notes(`@${bob}  program, idle`);
  chat.write('/help');
  await chat.notes('#channel text');
  chat.write('/what');
  await chat.notes('There is no /what');
  chat.leave();
  expect(await chat.exit).toBe(0);
  const sent = async (...filter: readonly string[]) =>
    values<SessionMessage>(await run('messages', 'list', ...filter, '--json'))
      .filter(({ from }) => from.type === 'session' && from.name === ada)
      .map(({ text }) => text);
  expect(await sent('--channel', 'lobby')).toEqual(['Hello back']);
  expect(await sent('--with', bob)).toEqual(['And again', 'Just you']);
});

test('sessions join reports a line that fails, sends the lines after it, and ends with an error', async () => {
  const { identity } = await attached('listener');
  const script = person('sessions', 'join', '--handle', fresh('eve'));
  await script.notes('You are @eve');
  script.write('To nobody');
  script.write('#no-such-channel hello');
  await script.notes('[not_found]');
  script.write(`@${identity.handle} still here`);
  script.leave();
  expect(await script.exit).toBe(1);
  expect(script.texts.err).toContain('2 lines failed');
  const list = await run('messages', 'list', '--with', identity.handle);
  expect(list.out).toContain('still here');
});

test('Ctrl-C ends sessions join while it waits for the handle', async () => {
  const handle = fresh('left');
  const first = person('sessions', 'join', '--handle', handle);
  await first.notes('You are @');
  first.leave();
  expect(await first.exit).toBe(0);
  const listeners = new Set(process.listeners('SIGINT'));
  const second = person('sessions', 'join', '--handle', handle);
  await second.notes('waiting until it is free');
  for (const listener of process.listeners('SIGINT')) {
    if (!listeners.has(listener)) listener('SIGINT');
  }
  expect(await second.exit).toBe(130);
});

test('sessions join prints messages as JSON lines, and ends with an error when it is released', async () => {
  const handle = fresh('json');
  const chat = person('sessions', 'join', '--handle', handle, '--json');
  await chat.notes(`You are @${handle}`);
  await fixture.client.messages.send({ to: `@${handle}`, text: 'Hi', mode: 'next-tool-call' });
  await chat.shows('\n');
  expect(JSON.parse(chat.texts.out)).toMatchObject({ text: 'Hi', mode: 'next-tool-call' });
  const { items } = await fixture.client.sessions.list({ harness: 'human' }).page();
  const session = items.find(({ identity }) => identity.handle === handle);
  await fixture.client.sessions.release(session?.id ?? '');
  expect(await chat.exit).not.toBe(0);
});
