import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
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

/*
 * Our reading against a real bash: every program that a text could name is a stub that writes down
 * its name and arguments. `FUZZ_DENIALS=100000` looks further. No text here holds a slash outside of /dev/null, so nothing else can run.
 */
const BASH = '/bin/bash';
const NAMES = ['ls', 'cat', 'git', 'rm', 'sudo', 'env', 'xargs', 'timeout', 'find', 'a', 'b', 'x'];
/** These run what they wrap, behind options and settings. */
const WRAPPING = new Set(['sudo', 'env', 'timeout']);
const denials = Number(process.env['FUZZ_DENIALS'] ?? 1_000);

const rule = (command: string) => ({ tool: 'bash', params: { command } });
const ruleSet = (allow: readonly string[], deny: readonly string[]): RuleSet => ({
  permissions: {
    allowlist: allow.length === 0 ? [{ tool: 'bash' }] : allow.map(rule),
    denylist: deny.map(rule),
  },
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  kinds: { command: 'command' },
});
const on = (command: string, rules: RuleSet): string =>
  decideCall({ toolCallId: 'tc-1', name: 'bash', arguments: { command } }, rules).decision;
const READERS = ['ls*', 'cat*', 'echo*', 'git log*'];

let folder = '';
let runs = 0;

/** What bash runs, each as its name and arguments. */
function ran(command: string): string[] {
  runs += 1;
  const log = join(folder, `log-${runs}`);
  const cwd = join(folder, `cwd-${runs}`);
  mkdirSync(cwd);
  spawnSync(BASH, ['-c', command], {
    cwd,
    env: { PATH: join(folder, 'bin'), STUB_LOG: log },
    stdio: 'ignore',
    timeout: 2_000,
    killSignal: 'SIGKILL',
  });
  return existsSync(log) ? readFileSync(log, 'utf8').split('\x1e').slice(0, -1) : [];
}

const noBash = existsSync(BASH) ? undefined : 'bash is not installed';

describe('beside a real bash', requires('shell', noBash), () => {
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'relay-shell-'));
    mkdirSync(join(folder, 'bin'));
    for (const name of NAMES) {
      const stub = join(folder, 'bin', name);
      const words = `printf -v words '%s\\x1f' ${name} "$@"`;
      const log = `printf '%s\\x1e' "$words" >> "$STUB_LOG"`; // at once, as others may write, too
      const skip = `case "$1" in -*|*=*|[0-9]*) true;; *) false;; esac`;
      const run = `while ${skip}; do shift; done; [ $# -gt 0 ] && exec "$@"`;
      writeFileSync(stub, `#!${BASH}\n${words}\n${log}\n${WRAPPING.has(name) ? run : ''}\n`);
      chmodSync(stub, 0o755);
    }
  });

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it.each([
    ['ls a; rm x', 'rm x'],
    ['ls "$(rm x)"', 'rm x'],
    ['r\\\nm x', 'rm x'],
    ["$'\\x72m' x", 'rm x'],
    ['r$@m x', 'rm x'],
    ['rm$IFS-r', 'rm -r'],
    ['{rm,x}', 'rm x'],
    ['$nothing rm x', 'rm x'],
    ['a[1 + 2]=3 rm x', 'rm x'],
    ['a=(1 2); for i do :; done; >f rm x', 'rm x'],
    ["cat <<E\n'\nE\nrm x\ncat <<E\n'\nE", 'rm x'],
    ['(( x = 5 # )); rm x', 'rm x'],
    ['ls #\\\nrm x', 'rm x'],
    ['ls \\\\\nrm x', 'rm x'],
    ['echo "$\\\n(rm x)"', 'rm x'],
    ["test -v 'a[$(rm x)]'", 'rm x'],
    ['let "a[\\$(rm x)]=1"', 'rm x'],
    ['ls\u00a0#; rm x', 'rm x'],
    ['f() { rm x; }; f', 'rm x'],
    ["eval 'ls a;' rm x", 'rm x'],
    ['case a in a) rm x;; esac', 'rm x'],
    ['echo ${x:-$(rm x)}', 'rm x'],
    ['if rm x; then :; fi', 'rm x'],
    ["trap 'rm x' EXIT", 'rm x'],
    ['coproc rm x; wait', 'rm x'],
    ['x=$((1 + $(rm x)))', 'rm x'],
    ['cat <(rm x); wait $!', 'rm x'],
  ])('%j does run a denied command, and is denied', (command, expected) => {
    expect(ran(command).map((words) => words.split('\x1f').join(' ').trim())).toContain(expected);
    expect(on(command, ruleSet(READERS, ['rm *']))).toBe('deny');
    expect(on(command, ruleSet([], ['rm *']))).toBe('deny');
  });

  const piece = fc.constantFrom(
    'ls',
    'cat',
    'rm x',
    'rm',
    'a',
    'b',
    ' ',
    ' ',
    ' ',
    ';',
    '&&',
    '|',
    '\n',
    '(',
    ')',
    '{ ',
    '; }',
    '$(',
    ')',
    '`',
    '"',
    '"',
    "'",
    "'",
    '\\',
    '\\\n',
    '#',
    ' #',
    '<<E\n',
    '\nE\n',
    '<(',
    '2>&1',
    '>/dev/null',
    '$x',
    '${x}',
    '${x:-',
    '}',
    '$((',
    '))',
    '[[ ',
    ' ]]',
    'case a in a) ',
    ';;',
    ' esac',
    'if ',
    '; then ',
    '; fi',
    '! ',
    'f()',
    'eval ',
    'A=b ',
    'a[',
    'a=(',
    '*',
    '?',
    '~',
    '\t',
    '\r',
    '\u00a0',
    "$'",
    '$"',
    ',',
    'r',
    'm',
    '=',
    '$?',
    '[',
    ']',
    '<<<',
    '|&',
    '&>',
    'sudo ',
    'env ',
    'timeout 1 ',
    '@(',
    '{a,b}',
    '{rm,x}',
    'x=rm;',
    '$x',
    '"$@"',
    'set -- rm x;',
    '${!x}',
    '${x@P}',
    'for i in ',
    '; do ',
    '; done',
    'while ',
    '<<-E\n',
    "<<'E'\n",
    '>(',
    ';;&',
    ';&',
    'coproc ',
    'exec ',
    'command ',
    'trap ',
    ' EXIT',
    'let ',
    '((',
    '$[',
    'test -v ',
    'read ',
    'unset ',
    '\\162m',
  );
  const noise = fc.array(piece, { maxLength: 7 }).map((pieces) => pieces.join(''));
  const seed = fc.constantFrom(
    'ls a; rm x',
    'ls "$(rm x)"',
    'cat <<E\n$(rm x)\nE\nls',
    'if ls; then rm x; fi',
    'ls a | cat b',
    'echo "a" \'b\' # c\nrm x',
    '[[ a == a ]] && rm x',
    'echo ${x:-$(rm x)}',
    '{ ls; rm x; }',
    'ls a; cat "b c" 2>&1',
    "git log -5 'x' | cat -",
    '',
    'eval "rm x"',
    'echo `rm x`',
    'env A=b rm x',
    'sudo -u root rm x',
    'timeout 5 rm x',
    'f() { rm x; }; f',
    'case $x in a|b) ls;; *) rm x;; esac',
    'for i in a b; do rm $i; done',
    'a=(1 "$(rm x)" 3)',
    'echo "${x/a/$(rm x)}"',
    'cat <<A <<B\n$(ls)\nA\n`rm x`\nB\n',
    "bash -c 'rm x'",
    'trap "rm x" EXIT',
    'ls >$(rm x)',
    '((a[$(rm x)]))',
    'ls && ( cat; rm x )',
  );
  const text = fc
    .tuple(seed, fc.nat(40), noise, fc.nat(3))
    .map(([from, at, more, cut]) => from.slice(0, at) + more + from.slice(at + cut));

  it('a text that runs a denied command is never allowed', { timeout: 3_600_000 }, () => {
    fc.assert(
      fc.property(text, (command) => {
        const byPattern = on(command, ruleSet(READERS, ['rm *']));
        const byTool = on(command, ruleSet([], ['rm *']));
        if (byPattern !== 'allow' && byTool !== 'allow') return;
        expect(ran(command).filter((words) => words.startsWith('rm\x1f'))).toEqual([]);
      }),
      { numRuns: denials },
    );
  });

  it('a text that is allowed runs what was covered, and nothing else', { timeout: 60_000 }, () => {
    const word = fc.constantFrom(
      'a',
      '-l',
      '"b c"',
      "'d;e'",
      'f\\ g',
      '\\;',
      '2>&1',
      '>/dev/null',
      '""',
      '"\\$x"',
      "'$x'",
      '#',
      '!',
    );
    const simple = fc
      .tuple(fc.constantFrom('ls', 'cat', 'git log', 'rm', 'x'), fc.array(word, { maxLength: 4 }))
      .map(([name, words]) => [name, ...words].join(' '));
    const joint = fc.constantFrom('; ', ' && ', ' | ', ' || ', ';', '|', '&&', ' & ', ' $(', ' `');
    const line = fc.tuple(simple, joint, simple, joint, simple).map((parts) => parts.join(''));
    let allowed = 0;
    fc.assert(
      fc.property(line, (command) => {
        if (on(command, ruleSet(READERS, [])) !== 'allow') return;
        allowed += 1;
        for (const words of ran(command)) {
          expect(words.split('\x1f').join(' ')).toMatch(/^(?:ls|cat|git log) /);
        }
      }),
      { numRuns: 1_500 },
    );
    expect(allowed).toBeGreaterThan(20);
  });
});
