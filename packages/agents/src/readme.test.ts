/** The examples of the README: they are short, they compile as they stand, and they say what it shows. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const examples = [
  ...readme.matchAll(/^## (.+)$[^#]*?```ts\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/gm),
].map(([, title = '', code = '', output = '']) => ({ title, code, output }));

async function run(code: string) {
  const flags = ['--no-warnings', '--input-type=module-typescript'];
  const { OPENAI_API_KEY: _, ...env } = process.env;
  const child = spawn(process.execPath, [...flags, '-e', code], { cwd: root, env });
  const running = { output: '', errors: '' };
  child.stdout.on('data', (chunk: Buffer) => (running.output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (running.errors += chunk.toString()));
  const exit = await new Promise((resolve) => child.once('close', resolve));
  return { exit, ...running };
}

describe('the README', () => {
  test('has five examples of at most 25 lines, and shows what each of them prints', () => {
    expect(examples).toHaveLength(5);
    expect(readme.match(/```ts\n/g)).toHaveLength(5);
    for (const { title, code } of examples) {
      expect(code.trimEnd().split('\n').length, title).toBeLessThanOrEqual(25);
      expect(code).toContain("from '@relay/agents'");
      expect(code).not.toMatch(/\bany\b|\bas (?!const)/);
    }
  });

  test.each(examples)('$title', async ({ code, output }) => {
    const { exit, errors, output: printed } = await run(code);
    expect(errors).toBe('');
    expect(printed.trimEnd()).toBe(output.trimEnd());
    expect(exit).toBe(0);
  });

  test('has examples that compile in a strict program', () => {
    // Inside the repository, so that it finds what a program would have installed.
    mkdirSync(join(root, '.cache'), { recursive: true });
    const folder = mkdtempSync(join(root, '.cache', 'agents-readme-'));
    for (const [index, { code }] of examples.entries()) {
      writeFileSync(join(folder, `example-${index + 1}.ts`), code);
    }
    const config = { extends: '../../tsconfig.test.json', include: ['*.ts'] };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
    const tsc = join(root, 'node_modules/.bin/tsc');
    const { stdout } = spawnSync(tsc, ['-p', folder], { cwd: root, encoding: 'utf8' });
    rmSync(folder, { recursive: true });
    expect(stdout).toBe('');
  }, 60_000);
});
