import type { StoredEvent } from '@relay/protocol';

export interface Clock {
  now(): number;
  /**
   * Resolves after `ms`, or as soon as the signal is aborted; it never rejects. A wait of weeks may
   * end early: whoever waits so long looks again.
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface Ids {
  next(): string;
}

/** A stable, collision-free fingerprint of a text (SHA-256, in hex). */
export type Digest = (text: string) => string;

/**
 * EventBuffer after each commit, never before (E1). No events at all means that something may have been
 * stored and not told. It may not throw.
 */
export interface Publisher {
  publish(runId: string, events: readonly StoredEvent[], tenantId: string): void;
}

/** For what happens outside any request. It may not throw. */
export interface Log {
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}
