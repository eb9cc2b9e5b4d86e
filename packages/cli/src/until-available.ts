import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable, unavailableReason } from './errors.ts';

const retryMs = 1_000;

export interface UntilAvailableOptions {
  /** Aborting it ends the wait: the call throws its reason. */
  readonly signal: AbortSignal;
  /** At the first failure, with its reason in a few words. */
  readonly onFailure?: (reason: string) => void;
}

/** Repeats a request until the server can be reached. It must have the same effect if it is repeated. */
export async function untilAvailable<Value>(
  request: () => Promise<Value>,
  { signal, onFailure }: UntilAvailableOptions,
): Promise<Value> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await request();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (attempt === 0 && !signal.aborted) onFailure?.(unavailableReason(error));
      // Its own error would hide the reason.
      await delay(retryMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}
