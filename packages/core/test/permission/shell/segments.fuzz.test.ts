/**
 * What is shown against what runs: made-up texts that are understood run in a real bash, in an empty
 * folder, where every name is unknown and is written down. Each name of
 * ours that ran must be shown as a command.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { requires } from '../../../../../test/support/requires.ts';
import { segmentsOf } from '../../../src/permission/shell/segments.ts';

const BASH = '/bin/bash';
const noBash = existsSync(BASH) ? undefined : 'bash is not installed';
// Each starts a process.
const texts = Number(process.env['FUZZ_COMMANDS'] ?? 1_500) / 5;

const names = ['c1', 'c2', '"c3"', 'c\\4', "'c5'", 'c"6"'];
/** Without globs, which could become the name of a file. */
const shell =
  '; & | && || ( ) { } ! # < > >> 2>&1 >f <f &>f <<E <<<x <(c7) >(c8) $x ${x} "$x" $(c7) `c8` ' +
  '"$(c9)" ${x:-$(c7)} $? $((1)) $# x=1 y=$(c8) a=(c9) a[1]=2 if then else fi while do done for in ' +
  'case esac function f() [[ ]] time coproc -- -a \' " ` \\ $"a" ~ "a\\" $\'\\n\' a#c1 \\# \\; $ $( "$( ${';
const lines = ['"a b"', "'a;c1'", '\\\n', '\n', '\t', '"; c1; "', "'\n", '#c1\n'];
const parts = [...names, ...names, ...shell.split(' '), ...lines];
const text = fc
  .array(fc.tuple(fc.constantFrom(...parts), fc.constantFrom(' ', ' ', ' ', '')), {
    minLength: 1,
    maxLength: 9,
  })
  .map((all) => all.flat().join(''));

it(
  'each command that a text runs is shown as one, if the text is understood',
  { ...requires('shell', noBash), timeout: 120_000 },
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'relay-segments-'));
    const recorder = join(folder, 'recorder');
    const quiet = `exec 9>>"$RECORD"\ncommand_not_found_handle() { builtin printf '%s\\x1e' "$1" >&9; }\n`;
    writeFileSync(recorder, quiet);
    let ran = 0;
    try {
      fc.assert(
        fc.property(text, (source) => {
          const segments = segmentsOf(source);
          if (segments.some(({ role }) => role === 'unparsed')) return;
          // What runs in the background may still write when the next text runs.
          const here = mkdtempSync(join(folder, 'run-'));
          const [cwd, record] = [join(here, 'cwd'), join(here, 'record')];
          mkdirSync(cwd);
          writeFileSync(record, '');
          spawnSync(BASH, ['--noprofile', '--norc', '-c', '--', source], {
            cwd,
            env: { PATH: join(folder, 'empty'), BASH_ENV: recorder, RECORD: record },
            stdio: 'ignore',
            timeout: 5_000,
            killSignal: 'SIGKILL',
          });
          const shown = new Set(
            segments
              .filter(({ role }) => role.endsWith('command'))
              .map((segment) => segment.text.replace(/\$(?=["'])|["'\\\n]/g, '')),
          );
          const found = readFileSync(record, 'utf8')
            .split('\x1e')
            .filter((name) => /^c\d$/.test(name));
          ran += found.length;
          for (const name of found)
            expect([source, [...shown]]).toEqual([source, expect.arrayContaining([name])]);
        }),
        { numRuns: texts },
      );
      expect(ran).toBeGreaterThan(texts / 20);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
