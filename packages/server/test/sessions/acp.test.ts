/** Agents over ACP under a server, on both databases: the scripted agent is a program of its own. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { SystemStore } from '@relay/core';
import { acp } from '@relay/harnesses';
import { uuidv7 } from 'uuidv7';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Logged, ScriptedOptions, Step } from '../../../harnesses/test/acp/scripted-agent.ts';
import { bootServer, type TestServer, until } from '../support/server.ts';
import { stores } from '../support/stores.ts';

const program = fileURLToPath(
  new URL('../../../harnesses/test/acp/scripted-agent.ts', import.meta.url),
);

function agent(name: string, options: ScriptedOptions) {
  const command = [process.execPath, program, JSON.stringify({ log: 'agent.log', ...options })];
  return acp({ name, command, sandbox: false });
}

const harnesses = [
  agent('steered', { steering: true, fork: true, mcp: true, tokens: 110 }),
  agent('plain', { denied: 'end' }),
];

const script = (...steps: Step[]) => `<<${JSON.stringify(steps)}>>`;

describe.each(Object.entries(stores))('an agent over ACP on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'relay-acp-')));
  const workspace = join(folder, 'workspace');

  const boot = () =>
    bootServer({
      store,
      file: { harnesses },
      env: {
        RELAY_NODE_ID: 'one',
        RELAY_DATA_DIR: join(folder, 'data'),
        RELAY_WORKSPACE: workspace,
        RELAY_SANDBOX: 'off',
      },
    });

  beforeAll(async () => {
    mkdirSync(workspace, { recursive: true });
    mkdirSync(join(folder, 'data'));
    store = await open();
    server = await boot();
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const started: string[] = [];

  // A node has a limited number of agents.
  afterEach(async () => {
    for (const id of started.splice(0)) {
      await server.ask(`/v1/sessions/${id}/release`, { method: 'POST' });
      await sessionIs(id, 'released');
    }
  });

  const tenant = () => store.tenant(server.tenantId);

  /** A session in a folder of its own. */
  async function start(harness = 'steered') {
    const handle = `h-${uuidv7()}`;
    mkdirSync(join(workspace, handle));
    const body = { harness, handle, workspace: handle };
    const { status, body: session } = await server.ask('/v1/sessions', { body });
    expect([status, session]).toEqual([201, expect.anything()]);
    started.push(String(session['id']));
    await sessionIs(String(session['id']), 'idle');
    return sessionNamed(handle, String(session['id']), handle);
  }

  function sessionNamed(handle: string, id: string, place: string) {
    const root = join(workspace, place);
    const log = (kind?: string): Logged[] => {
      const path = join(root, 'agent.log');
      const lines = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
      const all = lines.map((line) => JSON.parse(line) as Logged);
      return kind === undefined ? all : all.filter((entry) => entry.kind === kind);
    };
    const events = () => tenant().sessions.readEvents(id, { after: 0, limit: 10_000 });
    return {
      id,
      handle,
      root,
      log,
      events,
      path: `/v1/sessions/${id}`,
      transcript: async () =>
        (await events())
          .flatMap((event) => (event.type === 'transcript.chunk' ? [event.chunk.content] : []))
          .join(''),
      saying: (text: string) =>
        until(async () => {
          const all = await events();
          return all.some(
            (event) => event.type === 'transcript.chunk' && event.chunk.content.includes(text),
          );
        }, `the text ${text}`),
    };
  }

  async function send(handle: string, text: string, mode?: string) {
    const { status, body } = await server.ask('/v1/messages', {
      body: { to: `@${handle}`, text, ...(mode === undefined ? {} : { mode }) },
    });
    expect([status, body]).toEqual([201, expect.anything()]);
    const [delivery] = body['deliveries'] as { id: string }[];
    return { id: String(body['id']), deliveryId: delivery?.id ?? '' };
  }

  function deliveryIs(id: string, status: string) {
    return until(async () => {
      const delivery = await tenant().messages.readDelivery(id);
      return delivery?.status === status && delivery;
    }, `the delivery to be ${status}`);
  }

  function sessionIs(id: string, status: string) {
    return until(async () => {
      const session = await tenant().sessions.read(id);
      return session?.status === status && session;
    }, `the session to be ${status}`);
  }

  function openApproval(sessionId: string) {
    return until(async () => {
      const { body } = await server.ask(`/v1/approvals?sessionId=${sessionId}&status=pending`);
      return (body['approvals'] as Record<string, unknown>[])[0];
    }, 'the approval');
  }

  const decide = (approval: Record<string, unknown>, body: object) =>
    server.ask(`/v1/approvals/${String(approval['id'])}`, { body });

  it('answers a message in its thread, with receipts that say that they are concluded', async () => {
    const session = await start();
    const { id, deliveryId } = await send(session.handle, 'How are you?');
    await deliveryIs(deliveryId, 'consumed');
    await sessionIs(session.id, 'idle');
    expect(await session.transcript()).toBe('read: How are you?');
    const { body } = await server.ask(`/v1/messages?thread=${id}`);
    expect(body['messages']).toMatchObject([{ text: 'read: How are you?', replyTo: id }, { id }]);
    const receipts = (await session.events()).filter(({ type }) =>
      /^(delivery|message\.received)/.test(type),
    );
    expect(receipts).toMatchObject([
      { type: 'delivery.accepted' },
      { type: 'delivery.delivered', fidelity: 'inferred' },
      { type: 'message.received', fidelity: 'inferred' },
    ]);
    expect((await server.ask(session.path)).body).toMatchObject({ usage: { tokens: 110 } });
  });

  it('waits for the approval of a command, which then runs once', async () => {
    const session = await start();
    const { deliveryId } = await send(session.handle, script({ bash: 'echo x >> out' }));
    const approval = await openApproval(session.id);
    expect(approval).toMatchObject({
      kind: 'permission',
      tool: 'bash',
      params: { command: 'echo x >> out' },
      sessionId: session.id,
    });
    await sessionIs(session.id, 'waiting');
    expect(existsSync(join(session.root, 'out'))).toBe(false);
    const changed = await decide(approval, { approved: true, input: { command: 'ls' } });
    expect(changed).toMatchObject({ status: 409, body: { code: 'capability_missing' } });
    expect(await decide(approval, { approved: true })).toMatchObject({ status: 200 });
    await deliveryIs(deliveryId, 'consumed');
    expect(readFileSync(join(session.root, 'out'), 'utf8')).toBe('x\n');
    const types = (await session.events()).map(({ type }) => type);
    expect(types.filter((type) => /^(tool|command)/.test(type))).toEqual([
      'tool.called',
      'command.started',
      'command.completed',
      'tool.completed',
    ]);
  });

  it.each([
    ['steered', 'steer', 1],
    ['plain', 'prompt', 2],
  ])('does not run what is denied, and tells %s agents why', async (harness, kind, count) => {
    const session = await start(harness);
    const text = script({ bash: 'echo x >> out' }, { say: 'a pity', times: 20, pauseMs: 10 });
    const { deliveryId } = await send(session.handle, text);
    const approval = await openApproval(session.id);
    await decide(approval, { approved: false, reason: 'Not on a Monday' });
    await deliveryIs(deliveryId, 'consumed');
    await sessionIs(session.id, 'idle');
    const next = await send(session.handle, 'and now?');
    await deliveryIs(next.deliveryId, 'consumed');
    const told = session.log().filter((entry) => String(entry['text']).includes('Not on a Monday'));
    expect(told).toMatchObject([{ kind }]);
    expect(session.log(kind)).toHaveLength(count);
    expect(existsSync(join(session.root, 'out'))).toBe(false);
    expect(session.log('run')).toEqual([]);
  });

  it('is not asked again after "always", by the grant of Relay alone', async () => {
    const session = await start();
    const first = await send(session.handle, script({ bash: 'echo x >> out' }));
    const approval = await openApproval(session.id);
    expect(
      await decide(approval, { approved: true, always: true, scope: 'session' }),
    ).toMatchObject({ status: 200 });
    await deliveryIs(first.deliveryId, 'consumed');
    const second = await send(session.handle, script({ bash: 'echo x >> out' }));
    await deliveryIs(second.deliveryId, 'consumed');
    expect(readFileSync(join(session.root, 'out'), 'utf8')).toBe('x\nx\n');
    const { body } = await server.ask(`/v1/approvals?sessionId=${session.id}`);
    expect(body['approvals']).toHaveLength(1);
    const third = await send(session.handle, script({ bash: 'echo y >> out' }));
    await decide(await openApproval(session.id), { approved: false });
    await deliveryIs(third.deliveryId, 'consumed');
  });

  it('never runs what the policy denies, whatever the shell makes of it', async () => {
    const { body: policy } = await server.ask('/v1/policy');
    const deny = [{ tool: 'bash', params: { command: 'rm *' } }];
    const put = await server.ask('/v1/policy', {
      method: 'PUT',
      body: { version: policy['version'], deny },
    });
    expect(put.status).toBe(200);
    const session = await start();
    writeFileSync(join(session.root, 'kept'), '');
    const { deliveryId } = await send(session.handle, script({ bash: 'true; /bin/rm kept' }));
    await deliveryIs(deliveryId, 'consumed');
    expect(existsSync(join(session.root, 'kept'))).toBe(true);
    const { body } = await server.ask(`/v1/approvals?sessionId=${session.id}`);
    expect(body['approvals']).toEqual([]);
    expect(session.log('denied')).toHaveLength(1);
    await server.ask('/v1/policy', {
      method: 'PUT',
      body: { version: put.body['version'], deny: [] },
    });
  });

  it.each(['steered', 'plain'])(
    'takes an immediate message in the middle of an answer (%s)',
    async (harness) => {
      const session = await start(harness);
      const long = script({ say: 'word ', id: 'long', times: 100_000, pauseMs: 5 });
      const first = await send(session.handle, long);
      await session.saying('word');
      const second = await send(session.handle, 'stop', 'immediate');
      await deliveryIs(second.deliveryId, 'consumed');
      await deliveryIs(first.deliveryId, 'consumed');
      await session.saying('read: stop');
      expect(session.log(harness === 'plain' ? 'cancel' : 'steer')).toHaveLength(1);
    },
  );

  it('defers an immediate message while an approval is open and a tool runs', async () => {
    const session = await start();
    const gate = join(session.root, 'gate');
    const command = `echo begun >> out; while [ ! -e gate ]; do sleep 0.01; done`;
    const first = await send(
      session.handle,
      script({ bash: command }, { say: 'x', times: 100_000, pauseMs: 5 }),
    );
    const approval = await openApproval(session.id);
    const second = await send(session.handle, 'now', 'immediate');
    expect(await deliveryIs(second.deliveryId, 'deferred')).toMatchObject({
      reason: 'approval open',
    });
    await decide(approval, { approved: true });
    await until(() => existsSync(join(session.root, 'out')), 'the command');
    const third = await send(session.handle, 'and this', 'immediate');
    expect(await deliveryIs(third.deliveryId, 'deferred')).toMatchObject({
      reason: 'tool running',
    });
    expect(session.log('steer')).toEqual([]);
    writeFileSync(gate, '');
    for (const { deliveryId } of [first, second, third]) await deliveryIs(deliveryId, 'consumed');
    const steered = session.log('steer').map(({ text }) => String(text));
    expect(steered.join('').indexOf('now')).toBeLessThan(steered.join('').indexOf('and this'));
    expect(session.log('cancel')).toEqual([]);
  });

  it('hands over messages of the mode manual after a flush, and those on idle as one turn', async () => {
    const session = await start('plain');
    const held = await send(session.handle, 'later', 'manual');
    const gate = join(session.root, 'gate');
    const first = await send(session.handle, script({ say: 'working' }, { until: gate }));
    await session.saying('working');
    const others = [await send(session.handle, 'one'), await send(session.handle, 'two')];
    writeFileSync(gate, '');
    for (const { deliveryId } of [first, ...others]) await deliveryIs(deliveryId, 'consumed');
    const prompts = session.log('prompt').map(({ text }) => String(text));
    expect(prompts).toHaveLength(2);
    expect(prompts[1]).toMatch(/one[^]*two/);
    expect(await deliveryIs(held.deliveryId, 'accepted')).toBeTruthy();
    await server.ask(`${session.path}/flush`, { method: 'POST' });
    await deliveryIs(held.deliveryId, 'consumed');
  });

  it('ends a turn in which another command runs than was approved, and audits it', async () => {
    const session = await start();
    const { deliveryId } = await send(session.handle, script({ bash: 'ls', shows: 'touch x' }));
    await decide(await openApproval(session.id), { approved: true });
    await deliveryIs(deliveryId, 'consumed');
    expect(existsSync(join(session.root, 'x'))).toBe(false);
    expect((await session.events()).filter(({ type }) => type === 'error')).toMatchObject([
      {
        code: 'call_breached',
        error: expect.stringContaining('"touch x" instead of "ls"') as string,
      },
    ]);
    const { body } = await server.ask('/v1/audit?action=call.breached&limit=1');
    expect(body['entries']).toMatchObject([{ what: { sessionId: session.id, tool: 'bash' } }]);
  });

  it('survives kill -9 of its agent, which resumes and gets the message again', async () => {
    const session = await start();
    await deliveryIs((await send(session.handle, 'hello')).deliveryId, 'consumed');
    const gate = join(session.root, 'gate');
    const { deliveryId } = await send(session.handle, script({ say: 'begun' }, { until: gate }));
    await session.saying('begun');
    const pid = Number(session.log('prompt').at(-1)?.['pid']);
    process.kill(pid, 'SIGKILL');
    writeFileSync(gate, '');
    await deliveryIs(deliveryId, 'consumed');
    const prompts = session.log('prompt');
    expect(prompts).toMatchObject([{ history: 1 }, { history: 2 }, { history: 3 }]);
    expect(String(prompts[2]?.['text'])).toContain('It is sent again');
    expect(prompts[2]?.['pid']).not.toBe(pid);
    expect(session.log('resume')).toHaveLength(1);
    expect((await session.events()).filter(({ type }) => type === 'error')).toMatchObject([
      { code: 'agent_lost' },
    ]);
  });

  it('closes an approval when its agent is killed, and asks again when the agent does', async () => {
    const session = await start();
    await deliveryIs((await send(session.handle, 'hello')).deliveryId, 'consumed');
    const { deliveryId } = await send(session.handle, script({ bash: 'echo x >> out' }));
    const approval = await openApproval(session.id);
    process.kill(Number(session.log('prompt').at(-1)?.['pid']), 'SIGKILL');
    await until(async () => {
      const { body } = await server.ask(`/v1/approvals/${String(approval['id'])}`);
      return body['status'] === 'closed';
    }, 'the approval to be closed');
    expect((await decide(approval, { approved: true })).status).toBe(409);
    const again = await openApproval(session.id);
    expect(again['id']).not.toBe(approval['id']);
    await decide(again, { approved: true });
    await deliveryIs(deliveryId, 'consumed');
    expect(readFileSync(join(session.root, 'out'), 'utf8')).toBe('x\n');
  });

  it('is attached after a restart of the server, and continues its conversation', async () => {
    const session = await start();
    await deliveryIs((await send(session.handle, 'hello')).deliveryId, 'consumed');
    await server.stop();
    server = await boot();
    const { deliveryId } = await send(session.handle, 'still there?');
    await deliveryIs(deliveryId, 'consumed');
    expect(session.log('prompt')).toMatchObject([{ history: 1 }, { history: 2 }]);
    expect(session.log('resume')).toHaveLength(1);
    expect((await server.ask(session.path)).body).toMatchObject({ usage: { tokens: 220 } });
  });

  it('is forked into a session that knows what was said', async () => {
    const session = await start();
    await deliveryIs((await send(session.handle, 'remember this')).deliveryId, 'consumed');
    await sessionIs(session.id, 'idle');
    const handle = `h-${uuidv7()}`;
    const { status, body } = await server.ask(`${session.path}/fork`, { body: { handle } });
    expect([status, body]).toMatchObject([201, { parentSessionId: session.id }]);
    started.push(String(body['id']));
    const forked = sessionNamed(handle, String(body['id']), session.handle);
    await sessionIs(forked.id, 'idle');
    await deliveryIs((await send(handle, 'what was it?')).deliveryId, 'consumed');
    expect(forked.log('prompt').at(-1)).toMatchObject({ history: 2 });
    await deliveryIs((await send(session.handle, 'and you?')).deliveryId, 'consumed');
    expect(session.log('prompt').at(-1)).toMatchObject({ history: 2 });
  });

  it('sends messages by the MCP server of Relay, as itself', async () => {
    const [one, other] = [await start(), await start()];
    const step: Step = {
      mcp: 'send_message',
      arguments: { to: `@${other.handle}`, text: 'from one' },
    };
    await deliveryIs((await send(one.handle, script(step))).deliveryId, 'consumed');
    expect(one.log('mcp')).toMatchObject([{ status: 200 }]);
    await other.saying('read: from one');
    const [prompt] = other.log('prompt');
    expect(String(prompt?.['text'])).toContain(`sent directly to you by "${one.handle}"`);
  });

  it('ends with its session: its process is gone', async () => {
    const session = await start();
    await send(session.handle, script({ say: 'x', times: 100_000, pauseMs: 5 }));
    await session.saying('x');
    const pid = Number(session.log('prompt').at(-1)?.['pid']);
    expect((await server.ask(`${session.path}/release`, { method: 'POST' })).status).toBe(202);
    await sessionIs(session.id, 'released');
    await until(() => !isRunning(pid), 'the end of the process');
  });
});

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
