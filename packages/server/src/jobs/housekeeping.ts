import { BackgroundLoop, type Clock, type Log, type SystemStore } from '@relay/core';
import { deliveryTimeoutMs } from './webhook-deliverer.ts';

const intervalMs = 60_000;
const batchSize = 100;
const weekMs = 7 * 24 * 60 * 60_000;

export interface HousekeepingOptions {
  readonly store: Pick<
    SystemStore,
    'deleteExpiredMemories' | 'deleteSignIns' | 'pruneRuns' | 'deliveries' | 'sessions'
  >;
  /**
   * How long a conversation is kept after its last run has ended, a session after its release, and a
   * message after it was sent. Undefined: forever.
   */
  readonly retentionMs?: number | undefined;
  readonly sweepOutputs?: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Periodically deletes what has expired, in small batches. */
export function createHousekeeping(options: HousekeepingOptions): BackgroundLoop {
  const { clock, log } = options;
  return new BackgroundLoop({
    clock,
    intervalMs,
    step: (signal) => deleteExpired(options, signal),
    // Reads skip expired rows, so a late deletion is harmless.
    onError: (error) => log.warn('Failed to delete expired data', { error: String(error) }),
  });
}

/** Several nodes may do this at once. */
async function deleteExpired(
  { store, clock, retentionMs, sweepOutputs }: HousekeepingOptions,
  signal: AbortSignal,
): Promise<void> {
  const now = clock.now();
  const repeat = async (sweep: () => Promise<number>) => {
    let deleted = 1;
    while (deleted > 0 && !signal.aborted) deleted = await sweep();
  };
  // A late attempt may still succeed within its claim; finished deliveries are kept for a week.
  const failBefore = now - deliveryTimeoutMs - 60 * 60_000;
  const deleteBefore = now - weekMs;
  const sweeps = [
    () => repeat(() => store.deleteExpiredMemories(now, batchSize)),
    // The audit trail keeps who signed in to the console; the list of keys need not.
    () => repeat(() => store.deleteSignIns(now - weekMs, batchSize)),
    async () => {
      if (retentionMs === undefined) return;
      await repeat(() => store.pruneRuns(now - retentionMs, batchSize));
    },
    // Without a retention this continues deletions that were interrupted.
    () => {
      const before = retentionMs === undefined ? 0 : now - retentionMs;
      return repeat(() => store.sessions.prune(before, batchSize));
    },
    async () => sweepOutputs?.(),
    () => repeat(() => store.deliveries.sweep({ failBefore, deleteBefore, limit: batchSize })),
  ];
  // One that fails does not prevent the others.
  const errors: unknown[] = [];
  for (const sweep of sweeps) await sweep().catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}
