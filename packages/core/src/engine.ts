import type { Permissions } from '@relay/protocol';
import type {
  AgentRegistry,
  AuditEntry,
  Clock,
  Digest,
  Embedders,
  Ids,
  Log,
  ModelRegistry,
  NewAudit,
  Publisher,
  RunRef,
  SystemStore,
  ToolRegistry,
} from './ports/index.ts';
import type { TranscriptCache } from './run/context/transcript-cache.ts';

export interface Settings {
  /** This process among the nodes on one store. */
  readonly node: string;
  readonly leaseTtlMs: number;
  readonly approvalTtlMs: number;
  /** How long a client may take for the result of a function tool. */
  readonly toolResultTimeoutMs: number;
  readonly maxActiveRuns: number;
  /** How long running tools may finish when the server shuts down, or a run is canceled. */
  readonly graceMs: number;
  readonly providerAttempts: number;
  /**
   * An answer that was in time may still be on its way into the store when its approval expires. It is
   * waited for: an expiry that meets it there is undone, and the run is given up and taken up again.
   */
  readonly lateAnswerMs: number;
  readonly compaction: CompactionSettings;
}

/** When and how older turns give way to a summary of them. */
export interface CompactionSettings {
  /** The part of the window that may be full before a turn. */
  readonly threshold: number;
  /** The part of the window that recent turns keep. */
  readonly keep: number;
  /** For models whose window nobody knows; left out, only a refusal of theirs tells. */
  readonly windowTokens?: number;
  /** Who summarizes; left out, the agent's own model. */
  readonly model?: string;
}

/** The rules of a program that runs agents in itself, and may change them at any time. */
export interface ProgramRules {
  current(): Permissions;
  /** Removes an allow-once rule, in the same breath in which it allows a call. */
  useOnce(index: number): void;
}

export const defaultSettings: Omit<Settings, 'node'> = {
  leaseTtlMs: 15_000,
  approvalTtlMs: 24 * 60 * 60 * 1000,
  toolResultTimeoutMs: 10 * 60 * 1000,
  maxActiveRuns: 256,
  graceMs: 5_000,
  providerAttempts: 4,
  lateAnswerMs: 250,
  compaction: { threshold: 0.8, keep: 0.3 },
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
  agents(tenantId: string): AgentRegistry;
  /** Writes an entry of the audit trail down; left out: there is none. */
  readonly audit?: (tenantId: string, entry: AuditEntry) => NewAudit;
  /** Left out: memories are found by their words alone. */
  readonly embedders?: Embedders;
  /** Left out: a run's rules are those that it was started with. */
  readonly rules?: (run: RunRef) => ProgramRules;
}
