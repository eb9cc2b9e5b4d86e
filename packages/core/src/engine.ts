import type {
  Clock,
  Digest,
  Ids,
  Log,
  ModelRegistry,
  Publisher,
  SystemStore,
  ToolRegistry,
} from './ports.ts';
import type { TranscriptCache } from './run/transcript-cache.ts';

export interface Settings {
  /** This process among the nodes on one store. */
  readonly node: string;
  readonly leaseTtlMs: number;
  readonly relayTtlMs: number;
  readonly maxActiveRuns: number;
  /** How long running tools may finish when the server shuts down, or a run is canceled. */
  readonly graceMs: number;
  readonly providerAttempts: number;
  /**
   * An answer that was in time may still be on its way into the store when its relay expires. It is
   * waited for: an expiry that meets it there is undone, and the run is given up and taken up again.
   */
  readonly lateAnswerMs: number;
}

export const defaultSettings: Omit<Settings, 'node'> = {
  leaseTtlMs: 15_000,
  relayTtlMs: 24 * 60 * 60 * 1000,
  maxActiveRuns: 256,
  graceMs: 5_000,
  providerAttempts: 4,
  lateAnswerMs: 250,
};

/** Everything that driving a run needs, wired once by the composition root. */
export interface Engine {
  readonly store: SystemStore;
  readonly transcripts: TranscriptCache;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly digest: Digest;
  readonly publisher: Publisher;
  readonly log: Log;
  readonly settings: Settings;
  models(tenantId: string): ModelRegistry;
  tools(tenantId: string): ToolRegistry;
}
