/** The clock, ids, digests, publishing and logging. */
import type { StoredEvent } from '@relay/protocol';

export interface Clock {
  now(): number;
  /**
   * Resolves after `ms` or when the signal is aborted, and never rejects. A sleep of weeks may end
   * early, so its caller checks the time again.
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface Ids {
  next(): string;
}

/** SHA-256, in hex. */
export type Digest = (text: string) => string;

/**
 * Publishes events after their commit, never before (E1). An empty list means that events may have been
 * stored without being published. It must not throw.
 */
export interface Publisher {
  publish(runId: string, events: readonly StoredEvent[], tenantId: string): void;
}

/** Reports what happens outside of requests. It must not throw. */
export interface Log {
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}
