/** The examples of the SDK's README: they compile as they stand, and say what it shows. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient } from '@relay/sdk';
import { TestServer } from '../support/server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(root, 'packages/sdk');
const readme = readFileSync(join(folder, 'README.md'), 'utf8');
const examples = [
  ...readme.matchAll(/^## (.+)$[^#]*?```ts\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/gm),
].map(([, title = '', code = '', output = '']) => ({ title, code, output }));

const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

async function run(code: string) {
  const flags = ['--no-warnings', '--input-type=module-typescript'];
  const here = code.replaceAll('http://127.0.0.1:4000', server.url);
  const child = spawn(process.execPath, [...flags, '-e', here], {
    cwd: root,
    env: { ...process.env, RELAY_API_KEY: server.apiKey },
  });
  const running = { output: '', errors: '' };
  child.stdout.on('data', (chunk: Buffer) => (running.output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (running.errors += chunk.toString()));
  const exit = await new Promise((resolve) => child.once('close', resolve));
  return { exit, ...running };
}

describe('the README', () => {
  test('begins with what one wants to do, and shows what each example prints', () => {
    expect(examples.map(({ title }) => title)[0]).toBe('Start a run and have its answer');
    expect(examples).toHaveLength(6);
    expect(readme.match(/```ts\n/g)).toHaveLength(examples.length);
    for (const { title, code } of examples) {
      expect(code.trimEnd().split('\n').length, title).toBeLessThanOrEqual(25);
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
    mkdirSync(join(root, '.cache'), { recursive: true });
    const program = mkdtempSync(join(root, '.cache', 'sdk-readme-'));
    for (const [index, { code }] of examples.entries()) {
      writeFileSync(join(program, `example-${index + 1}.ts`), code);
    }
    const config = { extends: '../../tsconfig.test.json', include: ['*.ts'] };
    writeFileSync(join(program, 'tsconfig.json'), JSON.stringify(config));
    const tsc = join(root, 'node_modules/.bin/tsc');
    const { stdout } = spawnSync(tsc, ['-p', program], { cwd: root, encoding: 'utf8' });
    rmSync(program, { recursive: true });
    expect(stdout).toBe('');
  }, 60_000);

  test('names every call that a client has', () => {
    const client = createClient({ baseUrl: server.url });
    for (const [name, part] of Object.entries(client)) {
      expect(readme).toContain(`\`${name}`);
      if (typeof part === 'function') continue;
      const calls = [
        ...Object.keys(part),
        ...Object.getOwnPropertyNames(Object.getPrototypeOf(part)),
      ].filter((call) => call !== 'constructor' && !(call in Object.prototype));
      for (const call of calls) expect(readme, `${name}.${call}`).toContain(`\`${call}\``);
    }
  });

  test('is right about its size, and its links lead somewhere', async () => {
    const bundle = await rolldown({ input: join(folder, 'src/index.ts'), platform: 'browser' });
    const { output } = await bundle.generate({ format: 'esm', minify: true });
    const kilobytes = Math.round(gzipSync(output[0].code).length / 1000);
    expect(readme).toContain(`takes ${kilobytes} kB of a page`);
    const links = [...readme.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => path ?? '');
    expect(links.length).toBeGreaterThan(2);
    expect(links.filter((path) => !existsSync(join(folder, path)))).toEqual([]);
  });
});
