import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { candidates, scripts } from '../src/completion.ts';
import { createProgram } from '../src/program.ts';
import { fakeWorld } from './support/fake-world.ts';

function offered(...words: string[]): string[] {
  return candidates(createProgram(fakeWorld()), words).map(({ word }) => word);
}

describe('completion', () => {
  test('offers commands, and those of a family', () => {
    expect(offered('')).toEqual(expect.arrayContaining(['chat', 'runs', 'doctor']));
    expect(offered('')).not.toContain('__complete');
    expect(offered('app')).toEqual(['approvals']);
    expect(offered('runs', 't')).toEqual(['tail']);
    expect(offered('--json', 'runs', 'f')).toEqual(['fork']);
  });

  test('offers the options of a command, and those that hold everywhere', () => {
    expect(offered('runs', 'list', '--s')).toEqual(['--status', '--since']);
    expect(offered('runs', 'list', '--j')).toEqual(['--json']);
    expect(offered('chat', '--conv')).toEqual(['--conversation']);
  });

  test('offers the values of an option, and nothing where it cannot know any', () => {
    expect(offered('runs', 'list', '--status', 'c')).toEqual(['completed', 'canceled']);
    expect(offered('keys', 'create', 'ci', '--scopes', 'runs', 'a')).toEqual(['approve', 'admin']);
    expect(offered('runs', 'list', '--agent', '')).toEqual([]);
    expect(offered('completion', 'z')).toEqual(['zsh']);
  });

  test('knows a script for each shell', () => {
    expect(Object.keys(scripts)).toEqual(['bash', 'zsh', 'fish']);
    for (const script of Object.values(scripts)) expect(script).toContain('relay __complete --');
  });
});

test('the script for bash completes in bash', () => {
  const dir = mkdtempSync(join(tmpdir(), 'relay-completion-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const bin = fileURLToPath(new URL('../bin/relay.mjs', import.meta.url));
  writeFileSync(join(dir, 'relay'), `#!/bin/sh\nexec '${process.execPath}' '${bin}' "$@"\n`);
  chmodSync(join(dir, 'relay'), 0o755);
  const complete = (...words: string[]) =>
    execFileSync(
      'bash',
      [
        '--norc',
        '-c',
        `source <(relay completion bash)
         COMP_WORDS=(relay ${words.map((word) => `'${word}'`).join(' ')})
         COMP_CWORD=${words.length}
         _relay; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
      { encoding: 'utf8', env: { ...process.env, PATH: `${dir}:${process.env['PATH']}` } },
    ).trim();
  expect(complete('approvals', 'd')).toBe('deny');
  expect(complete('approvals', '')).toBe('list\nshow\napprove\ndeny');
  expect(complete('runs', 'list', '--status', 'wa')).toBe('waiting');
});
