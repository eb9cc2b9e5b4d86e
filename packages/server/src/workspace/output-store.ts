/**
 * The long outputs of commands, in `<data folder>/outputs/<tenant>/<run>`. They go when their run's
 * journal does, and the oldest go when all of them together take too much room.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, SystemStore } from '@relay/core';
import { RelayError } from '@relay/protocol';

export interface OutputStoreOptions {
  readonly folder: string;
  readonly store: Pick<SystemStore, 'tenant'>;
  readonly clock: Pick<Clock, 'now'>;
  /** How long a conversation is kept after its last run has ended. Left out: for ever. */
  readonly retentionMs?: number | undefined;
  /** How many bytes all of them may have. */
  readonly maxBytes: number;
}

interface Kept {
  readonly path: string;
  readonly tenantId: string;
  readonly runId: string;
  readonly bytes: number;
  readonly writtenAt: number;
}

export class OutputStore {
  readonly #options: OutputStoreOptions;

  constructor(options: OutputStoreOptions) {
    this.#options = options;
  }

  async sweep(): Promise<void> {
    const left: Kept[] = [];
    for (const kept of await this.#all()) {
      if (await this.#isForgotten(kept)) await remove(kept);
      else left.push(kept);
    }
    let bytes = left.reduce((sum, kept) => sum + kept.bytes, 0);
    for (const kept of left.toSorted((a, b) => a.writtenAt - b.writtenAt)) {
      if (bytes <= this.#options.maxBytes) return;
      await remove(kept);
      bytes -= kept.bytes;
    }
  }

  async #all(): Promise<Kept[]> {
    const { folder } = this.#options;
    const found: Kept[] = [];
    for (const tenantId of await namesIn(folder)) {
      for (const runId of await namesIn(join(folder, tenantId))) {
        const path = join(folder, tenantId, runId);
        const files = await Promise.all(
          (await namesIn(path)).map((name) => size(join(path, name))),
        );
        found.push({
          path,
          tenantId,
          runId,
          bytes: files.reduce((sum, file) => sum + file.bytes, 0),
          writtenAt: Math.max(0, ...files.map((file) => file.writtenAt)),
        });
      }
    }
    return found;
  }

  /** What was written lately cannot be: the journal is asked about the rest alone. */
  async #isForgotten({ tenantId, runId, writtenAt }: Kept): Promise<boolean> {
    const { store, clock, retentionMs } = this.#options;
    if (retentionMs === undefined || writtenAt > clock.now() - retentionMs) return false;
    try {
      const events = await store.tenant(tenantId).readEvents(runId, { after: 0, limit: 1 });
      return events.length === 0; // a run that nobody knows
    } catch (error) {
      // A damaged journal is kept, and so is what belongs to it.
      return error instanceof RelayError && error.code === 'journal_pruned';
    }
  }
}

/** One that is gone meanwhile is gone. */
async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

async function size(path: string): Promise<{ bytes: number; writtenAt: number }> {
  const found = await stat(path).catch(() => undefined);
  return { bytes: found?.size ?? 0, writtenAt: found?.mtimeMs ?? 0 };
}

async function remove({ path }: Kept): Promise<void> {
  await rm(path, { recursive: true, force: true });
}
