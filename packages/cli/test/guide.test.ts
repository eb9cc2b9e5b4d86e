/** Every command and option in the CLI guide exists. */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { candidates } from '../src/commands/completion.ts';
import { exitCodes } from '../src/errors.ts';
import { createProgram } from '../src/program.ts';
import { fakeEnvironment } from './support/environment.ts';

const guide = readFileSync(new URL('../../../docs/guides/cli.md', import.meta.url), 'utf8');
const shown = [...guide.matchAll(/```sh\n([\s\S]*?)```/g)]
  .flatMap(([, block = '']) => block.split('\n'))
  .flatMap((line) => /(?:^|<\()relay ([^|)#]*)/.exec(line)?.[1]?.trim() ?? []);

function wordsOf(line: string): string[] {
  return line
    .split(/ [<>] /)[0]!
    .replaceAll(/'[^']*'|"[^"]*"/g, 'X')
    .split(/ +/);
}

describe('the guide', () => {
  test.each(shown)('relay %s: the command and its options exist', (line) => {
    const words = wordsOf(line);
    const offered = (before: readonly string[], typed: string) =>
      candidates(createProgram(fakeEnvironment()), [...before, typed]).map(({ word }) => word);
    expect(offered([], words[0] ?? '')).toContain(words[0]);
    for (const [at, word] of words.entries()) {
      if (word.startsWith('--')) expect(offered(words.slice(0, at), '--')).toContain(word);
    }
  });

  test('mentions every command', () => {
    const names = (command: Command): string[] =>
      command.commands.flatMap((each) => [each.name(), ...names(each)]);
    for (const name of names(createProgram(fakeEnvironment()))) {
      if (/^(__complete|help|resume)$/.test(name)) continue;
      expect(guide, name).toMatch(new RegExp(`\\b${name}\\b`));
    }
  });

  test('lists every exit code', () => {
    for (const code of Object.values(exitCodes)) expect(guide).toContain(`| ${code} |`);
  });

  test('begins with the most common tasks', () => {
    const titles = [...guide.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    expect(titles.slice(0, 2)).toEqual(['Chat with an agent', 'Decide approvals']);
    expect(shown.length).toBeGreaterThan(25);
  });
});
