/** Runs the commands of the README's quickstart. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readme = readFileSync(`${root}/README.md`, 'utf8');
const section = readme.slice(readme.indexOf('## Quickstart'), readme.indexOf('## Commands of'));
const blocks = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, code]) => code ?? '');
const server = new TestServer();

beforeAll(() => server.start());
afterAll(() => server.dispose());

/** The one block of the section that holds this text. */
function block(text: string): string {
  const found = blocks.filter((code) => code.includes(text));
  expect(found, text).toHaveLength(1);
  return found[0] ?? '';
}

/** Runs a block in a shell as a reader would, with their ids filled in. */
function run(code: string, filled: Readonly<Record<string, string>> = {}) {
  let text = code.replaceAll('localhost:4000', server.url.replace('http://', ''));
  for (const [name, value] of Object.entries(filled)) text = text.replaceAll(name, value);
  const shell = spawn('bash', ['-ec', text], {
    cwd: root,
    env: { ...process.env, RELAY_DATA_DIR: server.dataDir, ...exported },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const running = { output: '', ended: new Promise((resolve) => shell.once('close', resolve)) };
  shell.stdout.on('data', (chunk: Buffer) => (running.output += chunk.toString()));
  return running;
}

const exported: Record<string, string> = {};

function field(output: string, type: string, name: string): string {
  const line = output.split('\n').find((each) => each.includes(`"type":"${type}"`)) ?? '';
  const frame = JSON.parse(line.replace('data: ', '')) as Record<string, string>;
  return frame[name] ?? '';
}

test('the quickstart has every command once, in this order', () => {
  const order = ['npm start', 'calculate', 'notify the build', '/chat/relay/', 'bootstrap'];
  const then = ['notify I survived', 'pkill -9', 'npm start', '/v1/approvals/', 'last-event-id'];
  expect(blocks).toHaveLength(order.length + then.length);
  for (const [index, text] of [...order, ...then].entries()) expect(blocks[index]).toContain(text);
});

test('sends a message', async () => {
  const asked = run(block('calculate 23*47'));
  await asked.ended;
  const types = [...asked.output.matchAll(/^event: (\w+)$/gm)].map(([, type]) => type);
  for (const type of ['connected', 'harness_start', 'tool_call', 'tool_result', 'text']) {
    expect(types).toContain(type);
  }
  expect(types.at(-1)).toBe('harness_end');
  expect(asked.output).toContain('1081');
});

test('approves a tool call', async () => {
  const chat = run(block('notify the build is green'));
  await until(async () => chat.output.includes('event: relay'));
  expect(server.notes).toEqual([]);
  const answer = run(block('/chat/relay/RELAY_ID'), {
    RELAY_ID: field(chat.output, 'relay', 'id'),
    SESSION_ID: field(chat.output, 'connected', 'sessionId'),
  });
  await Promise.all([answer.ended, chat.ended]);
  expect(answer.output).toBe('{"success":true}');
  expect(chat.output).toContain('event: harness_end');
  expect(server.notes.map(({ text }) => text)).toEqual(['the build is green']);
});

test('continues a run after the server was killed', async () => {
  const key = run(`${block('bootstrap')}\necho "$RELAY_API_KEY"`);
  await key.ended;
  exported['RELAY_API_KEY'] = key.output.trim();
  expect(exported['RELAY_API_KEY']).toMatch(/^relay_live_/);

  const stream = run(block('notify I survived'));
  await until(async () => stream.output.includes('"type":"approval_requested"'));
  await server.kill();
  await stream.ended;
  await server.start();

  const approvalId = field(stream.output, 'approval_requested', 'id');
  const approval = run(block('/v1/approvals/APPROVAL_ID'), { APPROVAL_ID: approvalId });
  await approval.ended;
  const { runId, status } = JSON.parse(approval.output) as { runId: string; status: string };
  expect(status).toBe('approved');

  const lastId = /^id: (\d+)$/gm.exec(stream.output.slice(stream.output.lastIndexOf('id: ')))?.[1];
  const rest = run(block('/v1/runs/RUN_ID/stream'), { RUN_ID: runId, LAST_ID: lastId ?? '' });
  await rest.ended;
  expect(rest.output).toContain(`"type":"approval_resolved","id":"${approvalId}"`);
  expect(rest.output).toContain('"type":"done","status":"completed"');
  expect(server.notes.filter(({ text }) => text === 'I survived')).toHaveLength(1);
});

test('every page that the README links to exists', () => {
  const links = [...readme.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => path ?? '');
  expect(links.length).toBeGreaterThan(5);
  expect(links.filter((path) => !existsSync(`${root}/${path}`))).toEqual([]);
});
