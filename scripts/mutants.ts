/**
 * Takes out one safeguard after the other, in a copy of the project, and shows that the tests which
 * stand for it turn red. They must be green before, or their red would mean nothing.
 *
 *   npm run mutants                 all of them
 *   npm run mutants -- allow-once   those whose name holds this
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Mutant, mutants } from '../test/faults/mutants.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const [wanted = ''] = process.argv.slice(2);
const chosen = mutants.filter(({ safeguard }) => safeguard.includes(wanted));

/** Its own files, so that nothing of this project changes, whatever happens to the copy. */
function copyProject(): string {
  const copy = mkdtempSync(join(tmpdir(), 'relay-mutants-'));
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

/** What an earlier run has read and kept would hide what has changed since. */
const caches = ['.vite', '.vite-temp', '.vitest-cache', '.cache'];

function isGreen(copy: string, { noticedBy, only, row }: Mutant): boolean {
  for (const cache of caches)
    rmSync(join(copy, 'node_modules', cache), { recursive: true, force: true });
  const args = [...noticedBy, ...(only === undefined ? [] : ['-t', only])];
  const vitest = [join(copy, 'node_modules/vitest/vitest.mjs'), 'run', '--reporter=dot'];
  const { status } = spawnSync(process.execPath, [...vitest, ...args], {
    cwd: copy,
    env: { ...process.env, ...(row === undefined ? {} : { RELAY_FAULTS_ROW: row }) },
    stdio: 'ignore',
    timeout: 600_000,
  });
  return status === 0;
}

/** What stands for several safeguards is looked at once. */
function nameOf({ noticedBy, only, row }: Mutant): string {
  return [...noticedBy, only ?? '', row ?? ''].join(' ').trim();
}

const copy = copyProject();
let missed = 0;
try {
  const green = new Map<string, boolean>();
  for (const mutant of chosen) {
    const name = nameOf(mutant);
    if (!green.has(name)) green.set(name, isGreen(copy, mutant));
    const file = join(copy, mutant.file);
    const source = readFileSync(file, 'utf8');
    writeFileSync(
      file,
      source.replace(mutant.from, () => mutant.to),
    );
    const noticed = green.get(name) === true && !isGreen(copy, mutant);
    writeFileSync(file, source);
    if (!noticed) missed += 1;
    const why = green.get(name) === true ? 'NOT NOTICED' : 'RED WITHOUT IT';
    console.log(`${noticed ? 'noticed' : why}: ${mutant.safeguard} (${name})`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(
  `${chosen.length - missed} of ${chosen.length} safeguards are missed when they are gone.`,
);
process.exitCode = missed === 0 && chosen.length > 0 ? 0 : 1;
