/** The curl lines of the seeds, placeholders filled in, as a person at a terminal runs them. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startScriptedProvider } from '@relay/models/testing';
import { afterEach, expect, test } from 'vitest';
import { LocalServer } from '../support/server.ts';
import { calls, says } from './scripted.ts';
import { verifies } from './verifies.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const disposals: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const dispose of disposals.splice(0).toReversed()) await dispose();
});

async function serve(env: Record<string, string> = {}): Promise<LocalServer> {
  const server = new LocalServer(env);
  disposals.push(() => server.dispose());
  return server.start();
}

async function run(script: string, env: Record<string, string>): Promise<string[]> {
  const path = `examples/curl/${script}`;
  const options = { cwd: root, env: { PATH: process.env['PATH'], ...env } };
  const { stdout } = await promisify(execFile)('bash', [path], options);
  return stdout.split('\n').filter((line) => line !== '');
}

test('chats are answered as 000 shows, without a key', async () => {
  const server = await serve();
  const said = await run('chat.sh', { RELAY_URL: server.url });
  expect(said).toHaveLength(8);
  for (const line of said) expect(line).toMatch(/^ok {2}/);
  expect(server.notes.map(({ text }) => text)).toEqual(['approve me', 'approve me always']);
});

test('runs, credentials, memories and results of tools work as 003 shows', async () => {
  verifies('003:runs:example', '003:api:any-language');
  const product = { id: 'call_1', name: 'calculator', input: { a: 23, b: 47, op: '*' } };
  const user = { id: 'call_2', name: 'get_user', input: { id: 'u_001' } };
  const turns = [calls(product), says('23 * 47', ' is 1081'), calls(user), says('It is Ada')];
  const provider = await startScriptedProvider((response, request) =>
    turns.shift()?.(response, request),
  );
  disposals.push(() => provider.close());
  const server = await serve({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
  const said = await run('runs.sh', {
    RELAY_URL: server.url,
    RELAY_API_KEY: server.apiKey,
    OPENAI_API_KEY: 'sk-0123456789abcdef',
    OPENAI_BASE_URL: provider.baseUrl,
  });
  for (const line of said) expect(line).toMatch(/^ok {2}/);
  expect(said).toHaveLength(18);
  expect(turns).toEqual([]);
});
