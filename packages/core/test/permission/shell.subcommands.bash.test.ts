import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requires } from '../../../../test/support/requires.ts';
import { decideCall } from '../../src/permission/decide.ts';
import { type GeneratedCase, generatedGroups, realPrograms } from './corpus/subcommands.ts';

/*
 * The generated cases in a real bash. Every program is a stub that writes down its name and arguments:
 * a function, because that is fast, and a file for what runs in another process.
 */
const BASH = '/bin/bash';
const SKIP_OPTIONS =
  'while case "$1" in -u) shift;; -*|*=*|[0-9]*) ;; *) false;; esac; do shift; done';
const names = Object.keys(realPrograms);
const record = (name: string) => `printf '%s\\036' "${name} $*" >> "$STUB_LOG"`;
const functions = names.map((name) => `${name}() { ${record(name)}; }; export -f ${name}\n`);
/** The commands under ask rules are those under deny rules. */
const groups = generatedGroups.filter(({ group }) => group.rules.permissions.ask?.length === 0);

let folder = '';

/** What bash runs for each of the commands. */
function ran(cases: readonly GeneratedCase[]): string[][] {
  const log = join(folder, 'log');
  const script = cases.map(({ command }) => `printf '\\035' >> "$STUB_LOG"\n${command}\n`);
  rmSync(log, { force: true });
  spawnSync(BASH, ['-c', [...functions, ...script].join('')], {
    cwd: folder,
    env: { PATH: folder, STUB_LOG: log },
    stdio: 'ignore',
  });
  const sections = readFileSync(log, 'utf8').split('\x1d').slice(1);
  return sections.map((section) => section.split('\x1e').slice(0, -1));
}

/** The subcommand and its arguments, without the options in front of it that are harmless. */
function withoutHarmlessOptions(program: string, argv: string): string {
  let rest = argv.slice(program.length + 1);
  for (let before = ''; before !== rest;) {
    before = rest;
    const option = realPrograms[program]!.harmless.find((each) => rest.startsWith(`${each} `));
    rest = rest.slice(option === undefined ? 0 : option.length + 1);
  }
  return rest;
}

const noBash = existsSync(BASH) ? undefined : 'bash is not installed';

describe('generated commands beside a real bash', requires('shell', noBash), () => {
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'relay-subcommands-'));
    for (const name of [...names, 'timeout', 'env', 'sudo']) {
      const run = names.includes(name) ? '' : `${SKIP_OPTIONS}; exec "$@"`;
      writeFileSync(join(folder, name), `#!/bin/sh\n${record(name)}\n${run}\n`);
      chmodSync(join(folder, name), 0o755);
    }
    symlinkSync(BASH, join(folder, 'bash'));
  });

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it.each(groups)(
    '$group.trick: what is allowed runs readers, and what is denied does run',
    ({ program, group: { rules, parameter }, cases }) => {
      const traced = cases.filter(({ argv }) => argv !== undefined);
      const all = ran(traced);
      expect(all).toHaveLength(traced.length);
      const readers = new Set(realPrograms[program]!.reads.split('|'));
      const byWildcard = rules.permissions.allowlist?.[0]?.params !== undefined;
      const wrong = traced.filter(({ command, argv = '' }, at) => {
        const call = { toolCallId: 'c', name: 'tool', arguments: { [parameter]: command } };
        const { decision } = decideCall(call, rules);
        const own = all[at]!.filter((text) => text.startsWith(`${program} `));
        if (!own.includes(argv)) return true;
        if (decision !== 'allow' || !byWildcard) return false;
        return !own.every((text) => readers.has(withoutHarmlessOptions(program, text)));
      });
      expect(wrong).toEqual([]);
    },
  );
});
