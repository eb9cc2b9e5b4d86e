/**
 * What is allowed against what runs. Commands are made up; those that the rules allow run in a real
 * bash, in an empty folder, where every builtin is a function and every other name is unknown: both
 * write down their words and do nothing. No command may show up there that no rule covers, and no
 * file may come into being.
 *
 * `FUZZ_COMMANDS=200000 npx vitest run shell.fuzz` takes longer and looks further.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requires } from '../../../../test/support/requires.ts';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';

const BASH = '/bin/bash';
const commands = Number(process.env['FUZZ_COMMANDS'] ?? 4_000);

/** Patterns, each with the words that a command must begin with to be meant by it. */
const patterns: Readonly<Record<string, readonly string[]>> = {
  'ls*': ['ls'],
  'ls *': ['ls'],
  'cat *': ['cat'],
  'echo*': ['echo'],
  'git log*': ['git', 'log'],
  'git status': ['git', 'status'],
  'grep *': ['grep'],
  'find *': ['find'],
  'sort *': ['sort'],
  'timeout *': ['timeout'],
  'npm run test*': ['npm', 'run'],
};
/** Words by which a program does more than a star stands for. */
const acting: Readonly<Record<string, readonly string[]>> = {
  find: ['-exec', '-delete', '-ok'],
  sort: ['-o'],
  git: ['-c', '-C'],
};

const builtins =
  'alias bg bind caller cd command compgen complete declare dirs disown echo enable eval exec export ' +
  'false fc fg getopts hash help history jobs kill let local mapfile popd printf pushd pwd read ' +
  'readarray readonly set shopt source test times trap true type typeset ulimit umask unalias unset wait [ . :';

/** Each function writes its words, apart by US, and ends with RS. */
const recorder = [
  `exec 9>>"$RECORD"`,
  // At once: the commands of a pipeline write beside each other.
  `relay_record() { builtin local all; builtin printf -v all '%s\\x1f' "$@"; builtin printf '%s\\x1e' "$all" >&9; }`,
  `command_not_found_handle() { relay_record "$@"; }`,
  ...builtins.split(' ').map((name) => `function ${name} { relay_record '${name}' "$@"; }`),
  '',
].join('\n');

let folder = '';
let runs = 0;

function ran(command: string): { commands: string[][]; files: string[] } {
  runs += 1;
  const [cwd, record] = [join(folder, `cwd-${runs}`), join(folder, `record-${runs}`)];
  mkdirSync(cwd);
  spawnSync(BASH, ['--noprofile', '--norc', '-c', '--', command], {
    cwd,
    env: { PATH: join(folder, 'empty'), BASH_ENV: join(folder, 'recorder'), RECORD: record },
    stdio: 'ignore',
    timeout: 5_000,
    killSignal: 'SIGKILL',
  });
  const entries = existsSync(record) ? readFileSync(record, 'utf8').split('\x1e').slice(0, -1) : [];
  const files = readdirSync(cwd);
  for (const path of [cwd, record]) rmSync(path, { recursive: true, force: true });
  return { commands: entries.map((entry) => entry.split('\x1f').slice(0, -1)), files };
}

/** Judged by the words that ran, without any of our own reading of the shell. */
function isCovered(words: readonly string[], allowed: readonly string[]): boolean {
  const meant = allowed.some((pattern) =>
    patterns[pattern]!.every((word, at) => words[at] === word),
  );
  if (!meant) return false;
  if (words[0] === 'timeout') return words.length <= 2 || isCovered(words.slice(2), allowed);
  const acts = acting[words[0] ?? ''] ?? [];
  return !words.some((word) => acts.includes(word));
}

const ruleSet = (allowed: readonly string[]): RuleSet => ({
  permissions: {
    allowlist: allowed.map((command) => ({ tool: 'bash', params: { command } })),
  },
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  kinds: { command: 'command' },
});

const names = [
  'ls',
  'ls',
  'cat',
  'cat',
  'echo',
  'git log',
  'git status',
  'grep',
  'find',
  'sort',
  'timeout 5',
  'npm run test',
  'rm',
  'lsof',
  'eval',
  'exec',
  'cd',
  'export',
  'sh',
  'git push',
];
const words = [
  'a',
  '-l',
  'b.txt',
  '"c d"',
  "'e;f'",
  'g\\ h',
  '""',
  '*',
  '?',
  '[ab]',
  '#',
  '!',
  '=',
  '-',
  '"$x"',
  "'$x'",
  '\\;',
  '{a,b}',
  '~',
  '$?',
  '-exec',
  '-o',
  '-c',
  '--',
  'A=b',
  '2>&1',
  '$x',
  '>/dev/null',
  '2>/dev/null',
  '>f',
  '<f',
  '>>f',
  '&>f',
  "$'x'",
  '$(rm a)',
  '`rm a`',
  '<(rm a)',
  '"$(rm a)"',
  '"a`rm b`"',
  '${x:-$(rm a)}',
  '\\\n',
  '\u00a0',
  '\t',
  '%',
  '^',
  'ls',
  'rm',
  ')',
];
const joints = [
  '; ',
  ' && ',
  ' || ',
  ' | ',
  '\n',
  ';',
  '|',
  '&&',
  ' & ',
  ' |& ',
  ' ; ; ',
  '\r\n',
  ' #\n',
  ' ) ; ',
  ' } ; ',
  ' $( ',
  ' ` ',
  '" ; ',
  "' ; ",
  '\\\n',
  ' <<E\n',
  '\nE\n',
  ' >(',
  ' \\; ',
];
const fronts = [
  '',
  '',
  '',
  '',
  '( ',
  '{ ',
  '! ',
  'if ',
  'A=b ',
  'time ',
  '>f ',
  '$(',
  '"',
  ' ',
  'then ',
];
const ends = ['', '', '', '', ' )', '; }', '; fi', ';', ' &', '"', "'", ')', '\n', ' # x', ' \\'];
const noise = [
  ...' \t\n;&|()<>{}[]$`"\'\\#!*?~=-arls'.split(''),
  'rm a',
  '$(',
  '${',
  "$'",
  '<<E',
  '))',
  '\u200b',
];

const simple = fc
  .tuple(fc.constantFrom(...names), fc.array(fc.constantFrom(...words), { maxLength: 4 }))
  .map(([name, rest]) => [name, ...rest].join(' '));
const line = fc
  .tuple(
    fc.constantFrom(...fronts),
    simple,
    fc.array(fc.tuple(fc.constantFrom(...joints), simple), { maxLength: 3 }),
    fc.constantFrom(...ends),
  )
  .map(([front, first, rest, end]) => front + first + rest.flat().join('') + end);
/** Half of the lines are spoiled a little: what almost parses is where readings differ. */
const spoiled = fc
  .tuple(line, fc.nat(80), fc.constantFrom(...noise), fc.nat(2))
  .map(([text, at, more, cut]) => text.slice(0, at) + more + text.slice(at + cut));
const plain = fc
  .tuple(
    fc.constantFrom(...names.slice(0, 10)),
    fc.array(fc.constantFrom(...words.slice(0, 14)), { maxLength: 3 }),
    fc.constantFrom(...joints.slice(0, 8)),
    fc.constantFrom(...names.slice(0, 12)),
    fc.array(fc.constantFrom(...words), { maxLength: 2 }),
  )
  .map(
    ([one, some, joint, two, more]) => [one, ...some].join(' ') + joint + [two, ...more].join(' '),
  );
const allowedPatterns = fc.subarray(Object.keys(patterns), { minLength: 3 });

const noBash = existsSync(BASH) ? undefined : 'bash is not installed';

describe('what is allowed, run by a real bash', requires('shell', noBash), () => {
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'relay-fuzz-'));
    mkdirSync(join(folder, 'empty'));
    writeFileSync(join(folder, 'recorder'), recorder);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('is seen by the recorder, builtins and hidden commands among it', () => {
    const seen = (command: string) => ran(command).commands.map((each) => each.join(' '));
    expect(seen('ls a; echo "$(rm b)"; cd x; eval y | [ 1 ]').toSorted()).toEqual(
      ['ls a', 'rm b', 'echo ', 'cd x', 'eval y', '[ 1 ]'].toSorted(),
    );
    expect(ran('ls >f').files).toEqual(['f']);
    expect(isCovered(['git', 'log', '-5'], ['git log*'])).toBe(true);
    expect(isCovered(['timeout', '5', 'rm'], ['timeout *', 'ls*'])).toBe(false);
    expect(isCovered(['lsof'], ['ls*'])).toBe(false);
  });

  it('runs nothing that no rule covers, and leaves no file', { timeout: 3_600_000 }, () => {
    let allowed = 0;
    fc.assert(
      fc.property(fc.oneof(line, spoiled, plain, plain), allowedPatterns, (command, chosen) => {
        const call = { toolCallId: 'c', name: 'bash', arguments: { command } };
        if (decideCall(call, ruleSet(chosen)).decision !== 'allow') return;
        allowed += 1;
        const { commands: executed, files } = ran(command);
        expect(executed.filter((each) => !isCovered(each, chosen))).toEqual([]);
        expect(files).toEqual([]);
      }),
      { numRuns: commands },
    );
    expect(allowed).toBeGreaterThan(commands / 50);
  });
});
