/** 002: the examples with a top level of their own, as programs that a person starts and answers. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { verifies } from './verifies.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

async function run(name: string, answers: readonly string[] = []) {
  const script = `examples/permissions/${name}.ts`;
  const child = spawn(process.execPath, ['--no-warnings', script], { cwd: root });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  child.stdin.end(answers.map((answer) => `${answer}\n`).join(''));
  const code = await new Promise((resolve) => child.once('close', resolve));
  return { code, lines: output.trimEnd().split('\n') };
}

describe('a person at the terminal', () => {
  test('is asked, and the answer is applied', async () => {
    verifies('002:relay:example');
    expect(await run('approve', ['yes'])).toEqual({
      code: 0,
      lines: [
        '$ ls',
        "Agent wants to call bash with { command: 'rm -rf build' }",
        'Allow bash? (yes/no) yes',
        '$ rm -rf build',
        'bash answered: ls: done',
        'bash answered: rm -rf build: done',
      ],
    });
    const { lines } = await run('approve', ['no']);
    expect(lines).not.toContain('$ rm -rf build');
    expect(lines.at(-1)).toBe('bash returned no result: it was denied (User denied).');
  });

  test('may say always, once or no, to several agents', async () => {
    verifies('002:dynamic:example', '002:orchestrator:many-agents');
    const { code, lines } = await run('always-once-no', ['always', 'once', 'once', 'no']);
    expect(code).toBe(0);
    expect(lines.filter((line) => line.startsWith('Allow'))).toHaveLength(4);
    const ran = lines.filter((line) => line.startsWith('$'));
    expect(ran.filter((line) => line === '$ git status')).toHaveLength(2);
    expect(ran.filter((line) => line === '$ git push')).toHaveLength(1);
  });
});

describe('a test', () => {
  test('that forgets to answer ends by itself, and its assertion holds', async () => {
    verifies('002:testing:relay-yielded', '002:testing:ends');
    expect(await run('testing')).toEqual({
      code: 0,
      lines: ['A relay was yielded, and nothing ran'],
    });
  });
});
