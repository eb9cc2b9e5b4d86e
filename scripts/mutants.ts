/**
 * Mutation tests: removes one safeguard after the other in a copy of the project and checks that its
 * tests fail. The tests must pass before the removal.
 *
 *   npm run mutants                 all safeguards
 *   npm run mutants -- allow-once   safeguards whose name contains this text
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Mutant, mutants } from '../test/faults/mutants.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const [wanted = ''] = process.argv.slice(2);
const chosen = mutants.filter(({ safeguard }) => safeguard.includes(wanted));

/** A full copy, so that mutations never change this project. */
function copyProject(): string {
  const copy = mkdtempSync(join(tmpdir(), 'relay-mutants-'));
  // The embedded PostgreSQL runs as another user.
  chmodSync(copy, 0o755);
  const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  const input = tracked
    .split('\n')
    .filter((file) => file !== '')
    .join('\0');
  const pack = spawnSync('tar', ['--null', '-cf', '-', '-T', '-'], {
    cwd: root,
    input,
    maxBuffer: 2 ** 30,
  });
  execFileSync('tar', ['-xf', '-'], { cwd: copy, input: pack.stdout });
  execFileSync('cp', ['-a', join(root, 'node_modules'), join(copy, 'node_modules')]);
  return copy;
}

/** Caches of an earlier run would hide the mutation. */
const caches = ['.vite', '.vite-temp', '.vitest-cache', '.cache'];

interface Seen {
  readonly green: boolean;
  readonly said: string;
}

function look(copy: string, { noticedBy, only, row }: Mutant): Seen {
  for (const cache of caches) {
    rmSync(join(copy, 'node_modules', cache), { recursive: true, force: true });
  }
  const args = [...noticedBy, ...(only === undefined ? [] : ['-t', only])];
  const vitest = [join(copy, 'node_modules/vitest/vitest.mjs'), 'run', '--reporter=dot'];
  const { status, stdout, stderr } = spawnSync(process.execPath, [...vitest, ...args], {
    cwd: copy,
    env: { ...process.env, ...(row === undefined ? {} : { RELAY_FAULTS_ROW: row }) },
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    timeout: 600_000,
  });
  return { green: status === 0, said: `${stdout}${stderr}` };
}

/** What stands for several safeguards is looked at once. */
function nameOf({ noticedBy, only, row }: Mutant): string {
  return [...noticedBy, only ?? '', row ?? ''].join(' ').trim();
}

const copy = copyProject();
let missed = 0;
try {
  const before = new Map<string, Seen>();
  for (const mutant of chosen) {
    const name = nameOf(mutant);
    const whole = before.get(name) ?? look(copy, mutant);
    before.set(name, whole);
    if (!whole.green) {
      missed += 1;
      console.log(`RED WITHOUT IT: ${mutant.safeguard} (${name})\n${whole.said.slice(-3_000)}`);
      continue;
    }
    const file = join(copy, mutant.file);
    const source = readFileSync(file, 'utf8');
    writeFileSync(
      file,
      source.replace(mutant.from, () => mutant.to),
    );
    const noticed = !look(copy, mutant).green;
    writeFileSync(file, source);
    if (!noticed) missed += 1;
    console.log(`${noticed ? 'noticed' : 'NOT NOTICED'}: ${mutant.safeguard} (${name})`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(
  `${chosen.length - missed} of ${chosen.length} safeguards are missed when they are gone.`,
);
process.exitCode = missed === 0 && chosen.length > 0 ? 0 : 1;
