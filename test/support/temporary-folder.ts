/**
 * One folder for all temporary files of a test run, which is removed at its end. For tests of behaviour it is in
 * memory, where programs may be executed there: a store waits for the disk at each commit, which takes a third of the
 * time of many tests and shows them nothing. Tests of faults use the disk.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

export function setup({ vitest }: TestProject): () => void {
  const isFast = vitest.projects.every(({ name }) => name === 'behaviour');
  const parent = process.env['TMPDIR'] ?? (isFast ? folderInMemory() : undefined) ?? tmpdir();
  const folder = mkdtempSync(join(parent, 'relay-tests-'));
  // PostgreSQL does not run as root, and needs its own folder below this one.
  chmodSync(folder, 0o755);
  // For the workers, and for the other set-ups.
  process.env['TMPDIR'] = folder;
  return () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
}

const neededBytes = 4 * 1024 ** 3;

function folderInMemory(): string | undefined {
  const folder = '/dev/shm';
  try {
    const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
    const mount = mounts.map((line) => line.split(' ')).find(([, path]) => path === folder);
    const options = mount?.[3]?.split(',') ?? ['noexec'];
    const { bavail, bsize } = statfsSync(folder);
    const isUsable = !options.includes('noexec') && !options.includes('ro');
    return isUsable && bavail * bsize > neededBytes ? folder : undefined;
  } catch {
    return undefined;
  }
}
