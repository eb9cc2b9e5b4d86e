/** Runs the commands of the README's quickstart. */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
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
    env: {
      ...process.env,
      RELAY_URL: server.url,
      RELAY_DATA_DIR: server.dataDir,
      ...exported,
    },
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

test('the quickstart has every command once, in this order, and no other section has one', () => {
  const order = ['npm start', 'npx relay chat', 'calculate', 'bootstrap', 'notify I survived'];
  const then = ['kill -9 PID', 'npm start', '/v1/approvals/', 'last-event-id'];
  expect(blocks).toHaveLength(order.length + then.length);
  for (const [index, text] of [...order, ...then].entries()) expect(blocks[index]).toContain(text);
  expect(readme.match(/^```sh$/gm)).toHaveLength(blocks.length);
});

test('chats on the command line', async () => {
  const chat = run(`${block('npx relay chat').trim()} < <(echo 'calculate 23*47')`);
  await chat.ended;
  expect(chat.output).toContain('1081');
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

test('continues a run after the server was killed', async () => {
  const key = run(`${block('bootstrap')}\necho "$RELAY_API_KEY"`);
  await key.ended;
  exported['RELAY_API_KEY'] = key.output.trim();
  expect(exported['RELAY_API_KEY']).toMatch(/^relay_live_/);

  const stream = run(block('notify I survived'));
  await until(async () => stream.output.includes('"type":"approval_requested"'));
  const pid = /^ +pid +(\d+)$/m.exec(server.output)?.[1] ?? '';
  await run(block('kill -9'), { PID: pid }).ended;
  await stream.ended;
  await server.kill();
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

const pages = [
  'README.md',
  'docs/README.md',
  ...['guides', 'reference', 'specs'].flatMap((folder) =>
    readdirSync(`${root}/docs/${folder}`).map((name) => `docs/${folder}/${name}`),
  ),
];

test.each(pages)('every page that %s links to exists', (page) => {
  const text = readFileSync(`${root}/${page}`, 'utf8');
  const links = [...text.matchAll(/\]\((?!\w+:)([^)#\s]+)/g)].map(([, path]) => path ?? '');
  expect(links.filter((path) => !existsSync(join(root, dirname(page), path)))).toEqual([]);
});

test('every guide is in the list of guides', () => {
  const index = readFileSync(`${root}/docs/README.md`, 'utf8');
  const guides = pages.filter((page) => page.startsWith('docs/guides/'));
  const links = guides.map((page) => `(${page.replace('docs/', '')})`);
  expect(links.filter((link) => !index.includes(link))).toEqual([]);
});
