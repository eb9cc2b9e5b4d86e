/** The guide on sessions: its commands run in their order, and its programs print what it shows. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { relayBin } from '../support/cli.ts';
import { ReadmeExamples, runExample } from '../support/readme-examples.ts';
import { TestServer } from '../support/server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const examples = new ReadmeExamples('docs/guides/sessions.md');
const commands = [...examples.text.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block);

const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

/** In one shell, so that later commands have the variables of earlier ones. */
function runShell(script: string): Promise<{ exit: number | null; out: string; err: string }> {
  const env = { ...process.env, RELAY_URL: server.url, RELAY_API_KEY: server.apiKey };
  const shell = spawn('bash', ['-c', script], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = { out: '', err: '' };
  shell.stdout.on('data', (chunk: Buffer) => (texts.out += chunk.toString()));
  shell.stderr.on('data', (chunk: Buffer) => (texts.err += chunk.toString()));
  return new Promise((resolve) => shell.on('close', (exit) => resolve({ exit, ...texts })));
}

/** A stream that is read for two seconds ends with the code 28 of curl. */
const prelude = `
set -eE
trap '[ $? = 28 ] || echo "failed: $BASH_COMMAND" >&2' ERR
relay() { '${process.execPath}' '${relayBin}' "$@"; }
curl() { command curl --fail-with-body "$@"; }
`;

describe('the guide on sessions', () => {
  test('has commands that succeed, one after the other', async () => {
    expect(commands).toHaveLength(7);
    const { exit, out, err } = await runShell(`${prelude}${commands.join('\n')}`);
    expect(err).not.toContain('failed:');
    expect({ exit, err }).toMatchObject({ exit: 0 });
    for (const text of ['@builder consumed', 'resize the images', '"status":"consumed"']) {
      expect(out).toContain(text);
    }
    expect(out).toContain('#team has 2 members');
  }, 60_000);

  test.each(examples.all)('has a program that prints what it shows: $title', async (example) => {
    const here = example.code.replaceAll('http://127.0.0.1:4000', server.url);
    const ran = await runExample(here, { ...process.env, RELAY_API_KEY: server.apiKey });
    expect(ran).toEqual({ exit: 0, output: example.output.trimEnd(), errors: '' });
  });

  test('attaches a program with at most 20 lines', () => {
    const titles = examples.all.map(({ title }) => title);
    expect(titles).toEqual([
      'Talk to a running agent',
      'Attach your program',
      'Expose functions to agents',
    ]);
    expect(examples.faults).toEqual([]);
    expect(examples.all[1]?.code.trimEnd().split('\n').length).toBeLessThanOrEqual(20);
  });
});
