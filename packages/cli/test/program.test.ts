import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { candidates } from '../src/commands/completion.ts';
import { runCli } from '../src/main.ts';
import { createProgram } from '../src/program.ts';
import { fakeEnvironment } from './support/environment.ts';

function allCommands(command: Command): Command[] {
  const own = command.commands.filter((each) => !/^(__|help$)/.test(each.name()));
  return [command, ...own.flatMap(allCommands)];
}

function pathOf(command: Command): string[] {
  return command.parent === null ? [] : [...pathOf(command.parent), command.name()];
}

const program = createProgram(fakeEnvironment());
const paths = allCommands(program).map(pathOf);

async function run(...args: string[]) {
  const environment = fakeEnvironment();
  const code = await runCli(args, environment);
  return { code, out: environment.out(), err: environment.err() };
}

describe('help', () => {
  test('lists every command', () => {
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
    'of "%s" has a description and an example',
    async (name, path) => {
      const { code, out, err } = await run(...path, '--help');
      expect([code, err]).toEqual([0, '']);
      const shown = out.slice(out.indexOf('Examples:'));
      expect(shown).toMatch(/^Examples:\n {2}\S/);
      expect(shown).toContain(`relay ${name}`.trim());
      expect(out.split('\n')[2]).not.toBe('');
      expect(out).toContain('--json');
      expect(out).not.toMatch(/\(default: [^)]*\)\s+\(default:/);
    },
  );

  test.each(paths.map((path) => [path.join(' '), path] as const))(
    'of "%s" fits a terminal of 80 columns',
    async (_, path) => {
      const environment = fakeEnvironment({ isTTY: true, columns: 80 });
      expect(await runCli([...path, '--help'], environment)).toBe(0);
      // Examples are not wrapped, so that they can be copied.
      const lines = environment.out().split('\n');
      const long = lines.filter((line) => line.length > 80 && !/^ {2}.*relay/.test(line));
      expect(long).toEqual([]);
    },
  );

  test.each([
    [['help'], 'relay'],
    [['help', 'help'], 'relay'],
    [['help', 'runs'], 'relay runs'],
    [['runs', 'help'], 'relay runs'],
    [['help', 'runs', 'show'], 'relay runs show'],
    [['runs', 'help', 'show'], 'relay runs show'],
    [['help', 'chat', 'hello', '--model'], 'relay chat'],
    [['models', 'help'], 'relay models'],
    [['models', 'help', 'update'], 'relay models update'],
  ])('%j shows the help of "%s"', async (args, name) => {
    const { code, out, err } = await run(...args);
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain(`Usage: ${name} [options]`);
  });

  test('has no example with a command or an option that does not exist', () => {
    for (const command of allCommands(program)) {
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
          const offered = candidates(createProgram(fakeEnvironment()), [
            ...words.slice(0, at),
            '--',
          ]);
          expect(
            offered.map((candidate) => candidate.word),
            line,
          ).toContain(word);
        }
      }
    }
  });
});

describe('a usage error', () => {
  test.each([
    [['bogus'], "unknown command 'bogus'"],
    [['runs', 'lisst'], "unknown command 'lisst'"],
    [['chatt', '--help'], "unknown command 'chatt' (Did you mean chat?)"],
    [['models', 'updaet', 'x'], "unknown command 'updaet' (Did you mean update?)"],
    [['help', 'chatt'], "unknown command 'chatt' (Did you mean chat?)"],
    [['help', 'runs', 'shwo'], "unknown command 'shwo' (Did you mean show?)"],
    [['runs', 'help', 'shwo'], "unknown command 'shwo' (Did you mean show?)"],
    [['runs', 'show'], 'Name a run'],
    [['runs', 'list', '--nonsense'], "unknown option '--nonsense'"],
    [['runs', 'list', '--limit', 'x'], 'Must be a positive integer'],
    [['serve', '--port', 'abc'], "option '--port <port>' argument 'abc' is invalid"],
    [['dev', '--port', '99999'], "option '--port <port>' argument '99999' is invalid"],
    [['completion', 'tcsh'], 'Unknown shell "tcsh"'],
  ])('%j exits with 2 and prints one line', async (args, message) => {
    const { code, out, err } = await run(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
    expect(err.trimEnd().split('\n')).toHaveLength(1);
    const json = await run(...args, '--json');
    expect(JSON.parse(json.err)).toMatchObject({ code: 'usage' });
  });

  test('a command without its subcommand shows the help and exits with 2', async () => {
    const { code, err } = await run('runs');
    expect(code).toBe(2);
    expect(err).toContain('Usage: relay runs');
  });
});

test('--version prints the version of the package', async () => {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  const { version } = JSON.parse(manifest) as { version: string };
  expect(await run('--version')).toMatchObject({ code: 0, out: `${version}\n` });
});
