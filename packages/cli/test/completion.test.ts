import { describe, expect, test } from 'vitest';
import { candidates, scripts } from '../src/commands/completion.ts';
import { createProgram } from '../src/program.ts';
import { fakeEnvironment } from './support/environment.ts';

function completions(...words: string[]): string[] {
  return candidates(createProgram(fakeEnvironment()), words).map(({ word }) => word);
}

describe('completion', () => {
  test('offers commands and subcommands', () => {
    expect(completions('')).toEqual(expect.arrayContaining(['chat', 'runs', 'doctor']));
    expect(completions('')).not.toContain('__complete');
    expect(completions('app')).toEqual(['approvals']);
    expect(completions('runs', 't')).toEqual(['tail']);
    expect(completions('--json', 'runs', 'f')).toEqual(['fork']);
  });

  test('offers the options of a command and the global options', () => {
    expect(completions('runs', 'list', '--s')).toEqual(['--status', '--since']);
    expect(completions('runs', 'list', '--j')).toEqual(['--json']);
    expect(completions('chat', '--conv')).toEqual(['--conversation']);
  });

  test('offers the choices of an option, and nothing for free text', () => {
    expect(completions('runs', 'list', '--status', 'c')).toEqual(['completed', 'canceled']);
    expect(completions('keys', 'create', 'ci', '--scopes', 'runs', 'a')).toEqual([
      'approve',
      'admin',
    ]);
    expect(completions('runs', 'list', '--agent', '')).toEqual([]);
    expect(completions('completion', 'z')).toEqual(['zsh']);
  });

  test('has a script for each shell', () => {
    expect(Object.keys(scripts)).toEqual(['bash', 'zsh', 'fish']);
    for (const script of Object.values(scripts)) expect(script).toContain('relay __complete --');
  });
});
