/** A disk that is full, and then is not: a small file system of its own, where that can be mounted. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Injection } from './faults.ts';
import type { During } from './round.ts';
import type { Environment } from './environment.ts';

export interface SmallDisk {
  readonly dir: string;
  fill(): void;
  free(): void;
  dispose(): void;
}

export function mountSmallDisk(): SmallDisk {
  const dir = mkdtempSync(join(tmpdir(), 'relay-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m,mode=0700', 'relay-faults', dir]);
  const ballast = join(dir, 'ballast');
  return {
    dir,
    fill() {
      for (const size of [1024 * 1024, 4096]) {
        try {
          for (;;) writeFileSync(ballast, Buffer.alloc(size), { flag: 'a' });
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
        }
      }
    },
    free: () => rmSync(ballast, { force: true }),
    dispose() {
      execFileSync('umount', [dir]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Full until a request fails with `storage_full`; the process keeps answering. */
export async function fillDisk(during: During, injection: Injection & { disk: SmallDisk }) {
  const { environment } = during;
  for (let count = 1; count <= injection.times; count += 1) {
    await pause(500 + injection.chance() * 500);
    injection.disk.fill();
    const deadline = Date.now() + 30_000;
    for (let refused = 0; refused < 3;) {
      if (Date.now() > deadline) throw new Error('storage_full was not reported');
      const health = await environment.request('/health');
      if (!health.ok) throw new Error('The process does not answer while the disk is full');
      if (await isTurnedAway(environment)) refused += 1;
      await pause(50);
    }
    injection.disk.free();
    await pause(500);
    await during.recovered();
    injection.done?.(count);
  }
}

/** A run that is not stored is not begun. What the database had laid aside may still take a few. */
async function isTurnedAway(environment: Environment): Promise<boolean> {
  const body = JSON.stringify({ model: 'demo', input: 'x'.repeat(200_000) });
  const response = await environment.request('/v1/runs', { method: 'POST', body });
  if (response.status === 503) return (await response.text()).includes('storage_full');
  // It will not come to its end before there is room again.
  await response.body?.cancel();
  return false;
}
