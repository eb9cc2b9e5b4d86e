/** `bash`, `read` and `patch`, from the request to the files. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  addKey,
  bootServer,
  type BootOptions,
  type TestServer,
  until,
} from '../../support/server.ts';
import {
  answerApproval,
  eventsOf,
  startChat,
  startRun,
  untilStatus,
} from '../../support/requests.ts';

let base = '';
let folder = '';
const running: TestServer[] = [];

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'relay-ws-')));
  folder = join(base, 'ws');
  mkdirSync(folder);
  writeFileSync(join(folder, 'a.txt'), 'alpha\n');
  writeFileSync(join(folder, 'b.txt'), 'beta\n');
});
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop();
  rmSync(base, { recursive: true, force: true });
});

async function boot(options: BootOptions = {}): Promise<TestServer> {
  const env = { RELAY_WORKSPACE: folder, ...options.env };
  const server = await bootServer({ ...options, env });
  running.push(server);
  return server;
}

const use = (tool: string, input: object): string => `use ${tool} ${JSON.stringify(input)}`;
const builtin = (name: string) => ({ name, kind: 'builtin' });

async function startWith(server: TestServer, tool: string, input: object, more: object = {}) {
  return startRun(server, { input: use(tool, input), tools: [builtin(tool)], ...more });
}

/** Starts a call that requires an approval, and waits for the request. */
async function asked(server: TestServer, tool: string, input: object, more: object = {}) {
  const { runId, reader } = await startWith(server, tool, input, more);
  const { data } = await reader.until('approval_requested');
  return { runId, reader, approvalId: String(data['id']) };
}

const decide = (server: TestServer, approvalId: string, body: object) =>
  server.request(`/v1/approvals/${approvalId}`, { body });

async function typesOf(server: TestServer, runId: string): Promise<string[]> {
  return (await eventsOf(server, runId)).events.map(({ type }) => type);
}

function sleepers(n: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(n);
    } catch {
      return false;
    }
  });
}
const unique = (): string => `${100_000 + Math.floor(Math.random() * 900_000)}.${Date.now()}`;

describe('the list of tools', () => {
  it('names the parameters that rules match as commands and paths', async () => {
    const server = await boot();
    const { tools } = (await server.json('/v1/tools')) as {
      tools: { name: string; kinds?: unknown }[];
    };
    const kindsOf = (tool: string) => tools.find(({ name }) => name === tool)?.kinds;
    expect(kindsOf('bash')).toEqual({ command: 'command', cwd: 'path' });
    expect(kindsOf('read')).toEqual({ filePath: 'path' });
    expect(kindsOf('send_note')).toBeUndefined();
  });
});

describe('bash in a chat', () => {
  it('requires an approval, runs as approved, and streams its output', async () => {
    const server = await boot();
    const chat = await startChat(server, use('bash', { command: 'ls; echo made > c.txt' }));
    const { data } = await chat.reader.until('relay');
    expect(data).toMatchObject({ tool: 'bash', params: { command: 'ls; echo made > c.txt' } });
    expect(existsSync(join(folder, 'c.txt'))).toBe(false);
    await answerApproval(server, chat, { approvalId: data['id'], response: { approved: true } });
    const frames = await chat.reader.rest();
    const of = (type: string) =>
      frames.filter(({ event }) => event === type).map((frame) => frame.data);
    expect(of('tool_result')[0]).toMatchObject({
      name: 'bash',
      output: {
        context: 'a.txt\nb.txt\nExit code 0.',
        result: { exitCode: 0, stdout: 'a.txt\nb.txt\n' },
      },
    });
    expect(
      of('tool_progress')
        .map(({ content }) => content)
        .join(''),
    ).toBe('a.txt\nb.txt\n');
    expect(readFileSync(join(folder, 'c.txt'), 'utf8')).toBe('made\n');
  });

  it('requires no approval of the identical command after always', async () => {
    const server = await boot();
    const conversationId = '018f0000-0000-7000-8000-000000000001';
    const first = await asked(server, 'bash', { command: 'echo 1 >> n' }, { conversationId });
    await decide(server, first.approvalId, { approved: true, always: true });
    await first.reader.rest();
    const again = await startWith(server, 'bash', { command: 'echo 1 >> n' }, { conversationId });
    await again.reader.rest();
    expect(await typesOf(server, again.runId)).not.toContain('approval.requested');
    expect(readFileSync(join(folder, 'n'), 'utf8')).toBe('1\n1\n');
    const other = await asked(server, 'bash', { command: 'echo 1  >> n' }, { conversationId });
    await decide(server, other.approvalId, { approved: false });
    await other.reader.rest();
  });

  it('is granted by its suggested rule, which chained commands do not match', async () => {
    const server = await boot();
    const conversationId = '018f0000-0000-7000-8000-000000000002';
    mkdirSync(join(folder, 'src'));
    writeFileSync(join(folder, 'src/b.txt'), 'beta\n');
    const first = await asked(server, 'bash', { command: 'cat src/a.txt' }, { conversationId });
    expect(await server.json(`/v1/approvals/${first.approvalId}`)).toMatchObject({
      suggestedRule: {
        tool: 'bash',
        params: { command: 'cat src/[a-zA-Z0-9_]*([a-zA-Z0-9_.-])' },
      },
    });
    await decide(server, first.approvalId, { approved: true, always: true, rule: 'suggested' });
    await first.reader.rest();
    const like = await startWith(server, 'bash', { command: 'cat src/b.txt' }, { conversationId });
    await like.reader.rest();
    expect(await typesOf(server, like.runId)).toContain('tool.completed');
    for (const command of [
      'cat src/b.txt; touch x',
      'cat src/../a.txt',
      'cat src/b.txt a.txt',
      'cat src/b.txt > x',
    ]) {
      const { approvalId, reader } = await asked(server, 'bash', { command }, { conversationId });
      await decide(server, approvalId, { approved: false });
      await reader.rest();
    }
    const elsewhere = await asked(
      server,
      'bash',
      { command: 'cat src/b.txt', cwd: '.' },
      { conversationId },
    );
    await decide(server, elsewhere.approvalId, { approved: false });
    expect(existsSync(join(folder, 'x'))).toBe(false);
  });

  it('is denied by a deny rule without an approval', async () => {
    const server = await boot();
    const permissions = {
      allowlist: [{ tool: 'bash' }],
      denylist: [{ tool: 'bash', params: { command: 'rm *' } }],
    };
    const { runId, reader } = await startWith(
      server,
      'bash',
      { command: 'ls; rm a.txt' },
      { permissions },
    );
    await reader.rest();
    const types = await typesOf(server, runId);
    expect(types).toContain('tool.denied');
    expect(types).not.toContain('tool.started');
    expect(existsSync(join(folder, 'a.txt'))).toBe(true);
  });

  it('does not run with edited arguments that a deny rule refuses', async () => {
    const server = await boot();
    const permissions = { denylist: [{ tool: 'bash', params: { command: 'rm *' } }] };
    const { runId, approvalId, reader } = await asked(
      server,
      'bash',
      { command: 'ls' },
      { permissions },
    );
    const refused = await decide(server, approvalId, {
      approved: true,
      input: { command: 'ls; rm a.txt' },
    });
    expect(refused.status).toBe(403);
    const outside = await decide(server, approvalId, {
      approved: true,
      input: { command: 'ls', cwd: '..' },
    });
    expect(outside.status).toBe(400);
    expect(await typesOf(server, runId)).not.toContain('tool.started');
    await decide(server, approvalId, { approved: true, input: { command: 'echo edited > e' } });
    await reader.rest();
    expect(readFileSync(join(folder, 'e'), 'utf8')).toBe('edited\n');
  });

  it('runs at most once if 50 clients decide concurrently', async () => {
    const server = await boot();
    const { runId, approvalId, reader } = await asked(server, 'bash', {
      command: 'echo ran >> log',
    });
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        decide(server, approvalId, n % 2 === 0 ? { approved: true } : { approved: false }),
      ),
    );
    await reader.rest();
    const approved = answers[0]?.status === 200;
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
    expect(
      (await typesOf(server, runId)).filter((type) => type === 'approval.decided'),
    ).toHaveLength(1);
    const log = existsSync(join(folder, 'log')) ? readFileSync(join(folder, 'log'), 'utf8') : '';
    expect(log).toBe(approved ? 'ran\n' : '');
  });

  it('does not run when its approval expires', async () => {
    const server = await boot({ env: { RELAY_APPROVAL_TTL_MS: '60' } });
    const { runId, reader } = await startWith(server, 'bash', { command: 'touch late' });
    await reader.rest();
    const types = await typesOf(server, runId);
    expect(types).toContain('approval.expired');
    expect(types).not.toContain('tool.started');
    expect(existsSync(join(folder, 'late'))).toBe(false);
  });

  it('is killed with its child processes when its run is canceled', async () => {
    const server = await boot();
    const n = unique();
    const command = `sleep ${n} & (sleep ${n} | sleep ${n}); wait`;
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const { runId } = await startWith(server, 'bash', { command }, { permissions });
    await until(() => sleepers(`sleep\0${n}`).length >= 3, 'the command to run');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await untilStatus(server, runId, 'canceled');
    await until(() => sleepers(n).length === 0, 'its processes to end');
  });

  it('stores long output in the data folder', async () => {
    const server = await boot();
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const { runId, reader } = await startWith(
      server,
      'bash',
      { command: 'seq 1 20000' },
      { permissions },
    );
    await reader.rest();
    const { events } = await eventsOf(server, runId);
    const { result } = events.find(({ type }) => type === 'tool.completed') as unknown as {
      result: { stdoutFile: string };
    };
    const [, ...rest] = result.stdoutFile.split('/');
    const kept = join(server.config.dataDir, 'outputs', server.tenantId, ...rest);
    expect(readFileSync(kept, 'utf8').split('\n')).toHaveLength(20_001);
  });
});

describe('a path that was approved', () => {
  it('requires a new approval if a symlink was changed before it runs', async () => {
    const server = await boot();
    const link = join(folder, 'link');
    symlinkSync('a.txt', link);
    const first = await asked(server, 'read', { filePath: 'link' });
    expect(await server.json(`/v1/approvals/${first.approvalId}`)).toMatchObject({
      resolvedPaths: { filePath: join(folder, 'a.txt') },
    });
    rmSync(link);
    symlinkSync('b.txt', link);
    await decide(server, first.approvalId, { approved: true });
    const { data } = await first.reader.until('approval_requested');
    expect(data['id']).not.toBe(first.approvalId);
    const again = await server.json(`/v1/approvals/${String(data['id'])}`);
    expect(again).toMatchObject({
      status: 'pending',
      resolvedPaths: { filePath: join(folder, 'b.txt') },
    });
    expect(await typesOf(server, first.runId)).not.toContain('tool.started');
    await decide(server, String(data['id']), { approved: true });
    const frames = await first.reader.rest();
    expect(JSON.stringify(frames)).toContain('beta');
    expect(JSON.stringify(frames)).not.toContain('alpha');
  });

  it('is not read if it now leads out of the workspace', async () => {
    const server = await boot();
    writeFileSync(join(base, 'secret'), 'top secret');
    const first = await asked(server, 'read', { filePath: 'a.txt' });
    rmSync(join(folder, 'a.txt'));
    symlinkSync('../secret', join(folder, 'a.txt'));
    await decide(server, first.approvalId, { approved: true });
    const frames = await first.reader.rest();
    expect(JSON.stringify(frames)).not.toContain('top secret');
    const { events } = await eventsOf(server, first.runId);
    expect(events.find(({ type }) => type === 'tool.failed')).toMatchObject({
      code: 'path_refused',
    });
  });

  it('is denied if it now leads to a denied path', async () => {
    const server = await boot();
    const permissions = { denylist: [{ tool: 'read', params: { filePath: 'b.txt' } }] };
    const first = await asked(server, 'read', { filePath: 'a.txt' }, { permissions });
    rmSync(join(folder, 'a.txt'));
    symlinkSync('b.txt', join(folder, 'a.txt'));
    await decide(server, first.approvalId, { approved: true });
    await first.reader.rest();
    expect(await typesOf(server, first.runId)).toContain('tool.denied');
  });

  it('is refused without an approval outside the workspace', async () => {
    const server = await boot();
    for (const filePath of ['../secret', '/etc/passwd', 'a.txt\0']) {
      const { runId, reader } = await startWith(server, 'read', { filePath });
      await reader.rest();
      const { events } = await eventsOf(server, runId);
      expect(events.find(({ type }) => type === 'tool.failed')).toMatchObject({
        code: 'path_refused',
      });
      expect(events.some(({ type }) => type === 'approval.requested')).toBe(false);
    }
  });
});

describe('patch', () => {
  it('changes what was approved', async () => {
    const server = await boot();
    const edits = [{ old: 'alpha', new: 'omega' }];
    const { approvalId, reader } = await asked(server, 'patch', { filePath: 'a.txt', edits });
    await decide(server, approvalId, { approved: true });
    await reader.rest();
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('omega\n');
  });
});

describe('a tenant without a folder', () => {
  it('does not have the workspace tools', async () => {
    const server = await boot();
    const { apiKey: key } = await addKey(server.store, { tenant: 'other' });
    const body = { model: 'demo', input: 'hi', tools: [builtin('bash')] };
    const refused = await server.request('/v1/runs', { body, key });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ code: 'unknown_tool' });
  });
});

describe('a chat without a key', () => {
  const options = { key: null };

  it('does not have the workspace tools, not even through a sub-agent', async () => {
    const file = { agents: [{ name: 'digger', instructions: 'Dig.', tools: ['bash'] }] };
    const server = await boot({ file });
    const call = use('bash', { command: 'touch x' });
    const delegated = use('agent', { agent: 'digger', prompt: call });
    for (const content of [call, delegated]) {
      const chat = await startChat(server, content, options);
      await chat.reader.rest();
      const { events } = await eventsOf(server, chat.runId);
      expect(events.filter(({ name }) => name === 'bash')).toEqual([]);
    }
    const named = { model: 'demo', messages: [{ role: 'user', content: 'hi' }], tools: ['bash'] };
    expect((await server.request('/chat', { body: named, key: null })).status).toBe(403);
    // With a key, the same sub-agent has it.
    const known = await startChat(server, delegated);
    expect((await known.reader.until('relay')).data).toMatchObject({ tool: 'bash' });
    expect(existsSync(join(folder, 'x'))).toBe(false);
  });

  it('has them if the operator allows it', async () => {
    const server = await boot({ env: { RELAY_LOCAL_CHAT: 'on' } });
    const chat = await startChat(server, use('bash', { command: 'touch x' }), options);
    const { data } = await chat.reader.until('relay');
    const answer = { approvalId: data['id'], response: { approved: true } };
    await answerApproval(server, chat, answer, options);
    await chat.reader.rest();
    expect(existsSync(join(folder, 'x'))).toBe(true);
  });
});

describe('a key that Relay knows', () => {
  it('is in no result and no progress of a tool', async () => {
    const internal = 'an-internal-secret-for-tests';
    const server = await boot({ env: { RELAY_INTERNAL_SECRET: internal } });
    const apiKey = 'provider-key-0123456789';
    await server.request('/v1/credentials/acme', {
      method: 'PUT',
      body: { apiKey, baseUrl: 'https://models.example/v1' },
    });
    const keys = [internal, apiKey, server.apiKey];
    writeFileSync(join(folder, 'leaked.txt'), keys.map((key) => `key: ${key}.\n`).join(''));
    const permissions = { allowlist: [{ tool: 'bash' }, { tool: 'read' }] };
    for (const [tool, input] of [
      ['read', { filePath: 'leaked.txt' }],
      ['bash', { command: 'cat leaked.txt; cat leaked.txt >&2' }],
    ] as const) {
      const { runId, reader } = await startWith(server, tool, input, { permissions });
      await reader.until('done');
      const { events } = await eventsOf(server, runId);
      const results = JSON.stringify(events.filter(({ type }) => /^tool\.(?!called)/.test(type)));
      expect(results).toContain('key: [redacted].');
      for (const key of keys) expect(results).not.toContain(key);
    }
  });
});

describe('a command that a rule allows', () => {
  it('needs a person where git would run a program of the workspace', async () => {
    const server = await boot();
    mkdirSync(join(folder, '.git/objects'), { recursive: true });
    mkdirSync(join(folder, '.git/refs'));
    writeFileSync(join(folder, '.git/HEAD'), 'ref: refs/heads/main\n');
    writeFileSync(join(folder, '.git/config'), '[diff "evil"]\n\ttextconv = touch ran\n');
    const call = { tool: 'bash', params: { command: 'git diff' } };
    const permissions = { allowlist: [{ tool: 'bash', params: { command: 'git diff*' } }] };
    const explained = await server.request('/v1/permissions/explain', {
      body: { ...call, permissions },
    });
    expect(await explained.json()).toMatchObject({
      decision: 'ask',
      rule: { list: 'needsApproval' },
      reason: expect.stringContaining('diff.evil.textconv, which runs a program'),
    });
    const { approvalId, runId } = await asked(server, 'bash', call.params, { permissions });
    await decide(server, approvalId, { approved: true });
    await untilStatus(server, runId, 'completed');
  });

  it('does not reach the data folder', async () => {
    const server = await boot();
    const command = `cat ${server.config.dataDir}/master-key`;
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const { runId, reader } = await startWith(server, 'bash', { command }, { permissions });
    await reader.until('done');
    expect((await eventsOf(server, runId)).events).toContainEqual(
      expect.objectContaining({ type: 'tool.failed', code: 'path_refused' }),
    );
  });
});
