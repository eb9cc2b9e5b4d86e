import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { candidates } from '../src/completion.ts';
import { runCli } from '../src/main.ts';
import { createProgram } from '../src/program.ts';
import { fakeWorld } from './support/fake-world.ts';

function all(command: Command): Command[] {
  const own = command.commands.filter((each) => !/^(__|help$)/.test(each.name()));
  return [command, ...own.flatMap(all)];
}

function pathOf(command: Command): string[] {
  return command.parent === null ? [] : [...pathOf(command.parent), command.name()];
}

const program = createProgram(fakeWorld());
const paths = all(program).map(pathOf);

async function run(...args: string[]) {
  const world = fakeWorld();
  const code = await runCli(args, world);
  return { code, out: world.out(), err: world.err() };
}

describe('the help', () => {
  test('knows every command', () => {
    expect(paths.map((path) => path.join(' '))).toEqual(
      expect.arrayContaining([
        'serve',
        'bootstrap',
        'chat',
        'doctor',
        'runs fork',
        'grants preview',
      ]),
    );
    expect(paths.length).toBeGreaterThan(35);
  });

  test.each(paths.map((path) => [path.join(' '), path] as const))(
    'of "%s" says what it does and shows an example of it',
    async (name, path) => {
      const { code, out, err } = await run(...path, '--help');
      expect([code, err]).toEqual([0, '']);
      const shown = out.slice(out.indexOf('Examples:'));
      expect(shown).toMatch(/^Examples:\n {2}\S/);
      expect(shown).toContain(`relay ${name}`.trim());
      expect(out.split('\n')[2]).not.toBe('');
      expect(out).toContain('--json');
    },
  );

  test.each(paths.map((path) => [path.join(' '), path] as const))(
    'of "%s" fits a terminal of 80 columns',
    async (_, path) => {
      const world = fakeWorld({ isTTY: true, columns: 80 });
      expect(await runCli([...path, '--help'], world)).toBe(0);
      // What is to be copied stands on one line, however long.
      const lines = world.out().split('\n');
      const long = lines.filter((line) => line.length > 80 && !/^ {2}.*relay/.test(line));
      expect(long).toEqual([]);
    },
  );

  test('has no example with a command or an option that does not exist', () => {
    for (const command of all(program)) {
      let text = '';
      command.configureOutput({ writeOut: (more) => (text += more) });
      command.outputHelp();
      const lines = text.slice(text.indexOf('Examples:')).matchAll(/^ {2}relay (.*)$/gm);
      for (const [, line = ''] of lines) {
        const words =
          line
            .replaceAll(/'[^']*'|"[^"]*"/g, 'X')
            .split(/[|<>]/)[0]
            ?.trim()
            .split(/ +/) ?? [];
        for (const [at, word] of words.entries()) {
          if (!word.startsWith('--')) continue;
          const offered = candidates(createProgram(fakeWorld()), [...words.slice(0, at), '--']);
          expect(
            offered.map((candidate) => candidate.word),
            line,
          ).toContain(word);
        }
      }
    }
  });
});

describe('what is mistyped', () => {
  test.each([
    [['bogus'], "unknown command 'bogus'"],
    [['runs', 'lisst'], "unknown command 'lisst'"],
    [['runs', 'show'], "missing required argument 'run'"],
    [['runs', 'list', '--nonsense'], "unknown option '--nonsense'"],
    [['runs', 'list', '--limit', 'x'], 'It must be a whole number'],
    [['completion', 'tcsh'], 'is not bash, zsh or fish'],
  ])('%j exits with 2 and one line', async (args, message) => {
    const { code, out, err } = await run(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
    expect(err.trimEnd().split('\n')).toHaveLength(1);
    const json = await run(...args, '--json');
    expect(JSON.parse(json.err)).toMatchObject({ code: 'usage' });
  });

  test('a family of commands without one shows its help, and is wrong usage', async () => {
    const { code, err } = await run('runs');
    expect(code).toBe(2);
    expect(err).toContain('Usage: relay runs');
  });
});

test('the version is that of the package', async () => {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  const { version } = JSON.parse(manifest) as { version: string };
  expect(await run('--version')).toMatchObject({ code: 0, out: `${version}\n` });
});
