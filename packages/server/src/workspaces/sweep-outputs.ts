/**
 * The long outputs of commands, in `<data folder>/outputs/<tenant>/<run>`. They are deleted with their
 * run's journal; beyond `maxBytes` in total, the oldest are deleted first.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, SystemStore } from '@relay/core';
import { RelayError } from '@relay/protocol';

export interface SweepOptions {
  readonly folder: string;
  readonly store: Pick<SystemStore, 'tenant'>;
  readonly clock: Pick<Clock, 'now'>;
  /** How long a conversation is kept after its last run has ended. Undefined: forever. */
  readonly retentionMs?: number | undefined;
  readonly maxBytes: number;
}

interface RunOutputs {
  readonly path: string;
  readonly tenantId: string;
  readonly runId: string;
  readonly bytes: number;
  readonly writtenAt: number;
}

export async function sweepOutputs(options: SweepOptions): Promise<void> {
  const left: RunOutputs[] = [];
  for (const outputs of await list(options.folder)) {
    if (await isPruned(options, outputs)) await remove(outputs);
    else left.push(outputs);
  }
  let bytes = left.reduce((sum, outputs) => sum + outputs.bytes, 0);
  for (const outputs of left.toSorted((a, b) => a.writtenAt - b.writtenAt)) {
    if (bytes <= options.maxBytes) return;
    await remove(outputs);
    bytes -= outputs.bytes;
  }
}

async function list(folder: string): Promise<RunOutputs[]> {
  const found: RunOutputs[] = [];
  for (const tenantId of await namesIn(folder)) {
    for (const runId of await namesIn(join(folder, tenantId))) {
      const path = join(folder, tenantId, runId);
      const files = await Promise.all((await namesIn(path)).map((name) => size(join(path, name))));
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

/** The journal is read only for outputs older than the retention. */
async function isPruned(
  { store, clock, retentionMs }: SweepOptions,
  { tenantId, runId, writtenAt }: RunOutputs,
): Promise<boolean> {
  if (retentionMs === undefined || writtenAt > clock.now() - retentionMs) return false;
  try {
    const events = await store.tenant(tenantId).readEvents(runId, { after: 0, limit: 1 });
    return events.length === 0; // an unknown run
  } catch (error) {
    // A damaged journal is kept, and so are its outputs.
    return error instanceof RelayError && error.code === 'journal_pruned';
  }
}

/** A folder that was deleted meanwhile is empty. */
async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

async function size(path: string): Promise<{ bytes: number; writtenAt: number }> {
  const found = await stat(path).catch(() => undefined);
  return { bytes: found?.size ?? 0, writtenAt: found?.mtimeMs ?? 0 };
}

async function remove({ path }: RunOutputs): Promise<void> {
  await rm(path, { recursive: true, force: true });
}
