/** The CLI as a process: start-up, exit codes and pipes. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { relay as run, relayBin } from '../support/cli.ts';
import { TestServer } from '../support/server.ts';

// Each test polls for the expected output; a busy machine can be slow.
vi.setConfig({ testTimeout: 120_000 });

const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

const environment = () => ({
  ...process.env,
  RELAY_URL: server.url,
  RELAY_API_KEY: server.apiKey,
});

/** In this process, where a process of its own would show nothing more. */
async function relay(...args: string[]) {
  const env = { RELAY_URL: server.url, RELAY_API_KEY: server.apiKey };
  const { code, out, err } = await run(args, { env });
  return { status: code, stdout: out, stderr: err };
}

function begin(
  args: readonly string[],
  env: NodeJS.ProcessEnv = environment(),
  flags: readonly string[] = [],
) {
  const child = spawn(process.execPath, [...flags, relayBin, ...args], { env });
  onTestFinished(() => void child.kill('SIGKILL'));
  const running = {
    child,
    output: '',
    ended: new Promise<number | null>((resolve) => child.once('close', resolve)),
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (running.output += chunk.toString()));
  }
  return running;
}

/** Writes the modules that are loaded to the error output. */
const listing = `data:text/javascript,import { registerHooks } from 'node:module';
  import { writeSync } from 'node:fs';
  registerHooks({ load(url, context, next) { writeSync(2, url + '\\n'); return next(url, context); } });`;

/** All of the server but the one file that finds those that run. */
const beyondRegistration = /packages\/server\/(?!src\/(registration|config\/file-names)\.ts)/;

test('started by an older Node, it passes signals on, and ends as the newer one does', async () => {
  const older = `Object.defineProperty(process, 'versions', { value: { node: '20.1.0' } })`;
  const flags = ['--import', `data:text/javascript,${encodeURIComponent(older)}`];
  for (const [sent, code, signal] of [
    ['SIGINT', 130, null],
    ['SIGTERM', null, 'SIGTERM'],
  ] as const) {
    const chat = begin(['chat', '--json', 'slow 600000'], environment(), flags);
    await expect.poll(() => chat.output, { timeout: 30_000 }).toContain('wait');
    chat.child.kill(sent);
    expect([await chat.ended, chat.child.signalCode]).toEqual([code, signal]);
  }
});

test('it starts without loading what a command does not need', () => {
  const args = [`--import=${listing}`, relayBin, '--help'];
  const { stderr } = spawnSync(process.execPath, args, { env: environment(), encoding: 'utf8' });
  expect(stderr).toContain('/packages/cli/');
  expect(stderr).not.toMatch(beyondRegistration);
  expect(stderr).not.toMatch(/\/packages\/(store|core)\/|fastify|zod/);
});

test('help and commands of the SDK load neither the server nor prompts', () => {
  const loaded = (...args: string[]) => {
    const hook = `
      import { registerHooks } from 'node:module';
      import { writeSync } from 'node:fs';
      registerHooks({ load: (url, context, next) => { writeSync(2, url + '\\n'); return next(url, context); } });`;
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`];
    const all = [...flags, relayBin, ...args];
    return spawnSync(process.execPath, all, { env: environment(), encoding: 'utf8' }).stderr;
  };
  const help = loaded('--help');
  expect(help).toContain('/commander/');
  expect(help).not.toMatch(/packages\/sdk\/|fastify|clack/);
  expect(help).not.toMatch(beyondRegistration);
  const list = loaded('runs', 'list');
  expect(list).toContain('packages/sdk/');
  expect(list).not.toMatch(/packages\/(core|store|models)\/|fastify|clack|\/zod\//);
  expect(list).not.toMatch(beyondRegistration);
});

test('serve listens, stops gracefully on SIGTERM, and reports in one line why it cannot start', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-cli-serve-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const env = { ...process.env, RELAY_LOG_LEVEL: 'off' };
  const serving = begin(['serve', '--port', '0', '--data-dir', dataDir], env);
  await expect.poll(() => serving.output, { timeout: 30_000 }).toContain('listening on');
  const second = begin(['serve', '--port', '0', '--data-dir', dataDir], env);
  expect(await second.ended).toBe(1);
  expect(second.output).toMatch(
    /^relay: Another Relay server is using .* \[start_failed\] – .*\n$/,
  );
  serving.child.kill('SIGTERM');
  expect(await serving.ended).toBe(0);
  const { port } = new URL(server.url);
  const taken = begin(['serve', '--port', port, '--data-dir', dataDir], env);
  expect(await taken.ended).toBe(1);
  expect(taken.output).toContain(`Port ${port} is in use`);
});

test("it runs with any Node: one that is too old starts the project's Node", () => {
  const own = join(process.execPath, '..');
  const folders = (process.env['PATH'] ?? '')
    .split(':')
    .filter((folder) => folder !== own && !folder.includes('node_modules'));
  const env = { ...environment(), PATH: [...folders, own].join(':') };
  const version = execFileSync('node', ['--version'], { env, encoding: 'utf8' }).trim();
  console.info(`the first Node of this machine is ${version}`);
  const run = spawnSync(relayBin, ['runs', 'list', '--json'], { env, encoding: 'utf8' });
  expect([run.status, run.stderr]).toEqual([0, '']);
  const failed = spawnSync(relayBin, ['bogus'], { env, encoding: 'utf8' });
  expect(failed.status).toBe(2);
});

test('a reader that closes the pipe early is not an error', () => {
  const command = `set -o pipefail; '${process.execPath}' '${relayBin}' --help | head -n 1`;
  const output = execFileSync('bash', ['-c', command], { env: environment(), encoding: 'utf8' });
  expect(output).toBe('Usage: relay [options] [command]\n');
});

test('a single message prints only the answer on standard output', async () => {
  const { stdout, stderr, status } = await relay('chat', 'calculate', '23*47');
  expect([status, stdout]).toEqual([0, '23 * 47 is 1081.\n']);
  expect(stderr).toContain('→ calculator');
  const failed = await relay('chat', 'fail 400');
  expect([failed.status, failed.stdout]).toEqual([7, '']);
  expect(failed.stderr).toMatch(/^relay: .*400.* \[provider_rejected\]\n$/);
  const events = (await relay('chat', '--json', 'say 2')).stdout.trimEnd().split('\n');
  expect(JSON.parse(events.at(-1) ?? '')).toMatchObject({ type: 'done', output: '1 2' });
});

test('a conversation continues with its last model, and an unknown one is not found', async () => {
  await relay('chat', '--model', 'demo', 'say 1');
  const { conversationId } = JSON.parse(
    (await relay('runs', 'list', '--limit', '1', '--json')).stdout,
  ) as {
    conversationId: string;
  };
  const next = await relay('chat', '--conversation', conversationId, 'say 2');
  expect([next.status, next.stdout]).toEqual([0, '1 2\n']);
  expect(next.stderr).toContain('you › say 1');
  const list = (await relay('runs', 'list', '--conversation', conversationId, '--json')).stdout;
  expect(list.trimEnd().split('\n')).toHaveLength(2);
  const none = await relay(
    'chat',
    '--conversation',
    '01234567-89ab-7def-8123-456789abcdef',
    'say 2',
  );
  expect([none.status, none.stdout]).toEqual([3, '']);
});

test('without a user, an approval stays pending for another approver', async () => {
  const chat = begin(['chat', 'notify somebody']);
  chat.child.stdin.end();
  await expect.poll(() => chat.output, { timeout: 30_000 }).toContain('relay approvals approve ');
  const id = /relay approvals approve (\S+)/.exec(chat.output)?.[1] ?? '';
  expect((await relay('approvals', 'approve', id)).status).toBe(0);
  expect(await chat.ended).toBe(0);
  expect(chat.output).toContain('The note was sent.');
});

test('--headless exits with 8 while the approval waits, and --deny lets the run end', async () => {
  const waiting = await relay('chat', '--headless', '--json', 'notify headless');
  expect(waiting.status).toBe(8);
  const last = JSON.parse(waiting.stdout.trimEnd().split('\n').at(-1) ?? '') as { id: string };
  expect(last).toMatchObject({ type: 'approval_requested', tool: 'send_note' });
  expect(JSON.parse(waiting.stderr)).toMatchObject({ code: 'approval_pending' });
  expect(waiting.stderr).toContain(`relay approvals approve ${last.id}`);
  const approval = JSON.parse(
    (await relay('approvals', 'show', last.id, '--json')).stdout,
  ) as object;
  expect(approval).toMatchObject({ status: 'pending' });
  const denied = await relay('chat', '--deny', 'notify denied');
  expect([denied.status, denied.stdout]).toEqual([
    0,
    'The note was not sent: it was denied (No person is present to approve it).\n',
  ]);
});

test('a message to a conversation that waits for an approval is not sent, and the command says so', async () => {
  await relay('chat', '--headless', 'notify first');
  const next = await relay('chat', '--continue', '--headless', 'say 2');
  expect(next.status).toBe(8);
  expect(next.stderr).toContain('send_note waits for approval; your message was not sent');
  // In a pipe the line answers the approval, and its end leaves the run waiting.
  const piped = begin(['chat']);
  piped.child.stdin.end('notify second\nsay 2\n');
  expect(await piped.ended).toBe(8);
  expect(piped.output).toContain('Invalid choice "say 2", which is not sent: type y, n, a or e.');
  expect(piped.output).toContain('send_note waits for approval [approval_pending]');
});

test('--timeout stops waiting with 124, and the run goes on', async () => {
  const chat = await relay('chat', '--timeout', '1s', 'slow 600000');
  expect(chat.status).toBe(124);
  const [, id = ''] = /relay runs tail (\S+)"/.exec(chat.stderr) ?? [];
  const run = JSON.parse((await relay('runs', 'show', id, '--json')).stdout) as object;
  expect(run).toMatchObject({ status: 'running' });
  const tail = await relay('runs', 'tail', id, '--timeout', '1s');
  expect([tail.status, tail.stdout.trim()]).toEqual([124, 'I wait for 600000 ms']);
  await relay('runs', 'cancel', id);
});

test('a message is read from standard input, and files are attached', async () => {
  const send = (input: string, ...args: string[]) =>
    spawnSync(process.execPath, [relayBin, 'chat', ...args], {
      env: environment(),
      encoding: 'utf8',
      input,
    });
  // Nothing in the text is a command, an answer or a file.
  const { stdout, status } = send('say 2\n@/etc/passwd\n/exit\n', '-');
  expect([status, stdout]).toEqual([0, '1 2\n']);
  const file = await relay('chat', 'say 3', `@${relayBin}`);
  expect([file.status, file.stdout]).toEqual([0, '1 2 3\n']);
  const [run] = JSON.parse(
    `[${(await relay('runs', 'list', '--limit', '1', '--json')).stdout}]`,
  ) as {
    input: unknown;
  }[];
  expect(JSON.stringify(run?.input)).toContain(`<file path=\\"${relayBin}\\">`);
  const none = await relay('chat', 'read @./missing.ts');
  expect([none.status, none.stderr.includes('No such file: ./missing.ts')]).toEqual([2, true]);
});

test('--continue continues the latest conversation, which is in the list', async () => {
  await relay('chat', 'say 1');
  expect((await relay('chat', '--continue', 'say 2')).stdout).toBe('1 2\n');
  const [first] = (await relay('conversations', 'list', '--json')).stdout.split('\n');
  expect(JSON.parse(first ?? '')).toMatchObject({ title: 'say 1', runs: 2, agent: 'assistant' });
});

test('approvals of one turn are prompted for and decided one by one', async () => {
  const note = (text: string) => `use send_note ${JSON.stringify({ to: 'operator', text })}`;
  const chat = begin(['chat', [note('left'), note('right')].join('\n')]);
  chat.child.stdin.end('d\nnot this one\no\n');
  expect(await chat.ended).toBe(0);
  const asked = [...chat.output.matchAll(/"text": "(\w+)"/g)].map(([, text]) => text);
  expect(asked).toEqual(['left', 'right']);
  const texts = server.notes.map(({ text }) => text);
  expect(texts).toContain('right');
  expect(texts).not.toContain('left');
  expect(chat.output).toContain('not this one');
});

test('a chat without a key reports its usage', async () => {
  const env = { ...environment(), RELAY_API_KEY: '', RELAY_DATA_DIR: '/nowhere' };
  const chat = begin(['chat', '--json', 'say 5'], env);
  expect(await chat.ended).toBe(0);
  const done = JSON.parse(chat.output.trimEnd().split('\n').at(-1) ?? '') as object;
  expect(done).toMatchObject({ type: 'done', usage: { inputTokens: 2, outputTokens: 5 } });
});

test('without a key and without a user, an approval is denied', async () => {
  const env = { ...environment(), RELAY_API_KEY: '', RELAY_DATA_DIR: '/nowhere' };
  const chat = begin(['chat', 'notify nobody'], env);
  chat.child.stdin.end();
  expect(await chat.ended).toBe(0);
  expect(chat.output).toContain('No approver is available');
  expect(server.notes.filter(({ text }) => text === 'nobody')).toEqual([]);
});

test('--headless exits with 8 without a key too', async () => {
  const env = { ...environment(), RELAY_API_KEY: '', RELAY_DATA_DIR: '/nowhere' };
  const chat = begin(['chat', '--headless', 'notify without a key'], env);
  expect(await chat.ended).toBe(8);
  expect(chat.output).toContain('send_note waits for approval [approval_pending]');
  expect(chat.output).toContain('set RELAY_API_KEY');
  expect(server.notes.filter(({ text }) => text === 'without a key')).toEqual([]);
});

test('--timeout also ends a chat with a server that does not answer', async () => {
  const silent = createServer(() => {});
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    silent.closeAllConnections();
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;
  const env = { ...environment(), RELAY_URL: `http://127.0.0.1:${port}` };
  const chat = begin(['chat', '--timeout', '1s', 'say 5'], env);
  expect(await chat.ended).toBe(124);
  expect(chat.output).toContain('[timeout]');
}, 45_000);

test('an interrupted run is canceled, and the exit code says so', async () => {
  const chat = begin(['chat', '--json', 'slow 600000']);
  await expect.poll(() => chat.output, { timeout: 30_000 }).toContain('wait');
  chat.child.kill('SIGINT');
  expect(await chat.ended).toBe(130);
  expect(chat.output).toContain('"interrupted"');
  const [last] = JSON.parse(
    `[${(await relay('runs', 'list', '--limit', '1', '--json')).stdout.trim()}]`,
  ) as { status: string }[];
  expect(last?.status).toBe('canceled');
});

test('a chat survives a server that is killed during a turn', async () => {
  const chat = begin(['chat', 'notify through a kill']);
  await expect.poll(() => chat.output, { timeout: 30_000 }).toContain('needs approval');
  const { port } = new URL(server.url);
  await server.kill();
  await server.start({ RELAY_PORT: port });
  chat.child.stdin.end('o\n');
  expect(await chat.ended).toBe(0);
  expect(chat.output).toContain('The note was sent.');
  expect(server.notes.filter(({ text }) => text === 'through a kill')).toHaveLength(1);
});
