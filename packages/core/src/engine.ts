import type { Permissions } from '@relay/protocol';
import type {
  AgentRegistry,
  AuditEntry,
  Clock,
  Digest,
  Embedders,
  Ids,
  InboxLimit,
  Log,
  ModelRegistry,
  NewAuditEntry,
  NewDelivery,
  NewInvocation,
  Publisher,
  RunBudget,
  RunRef,
  SessionRef,
  SystemStore,
  ToolRegistry,
} from './ports/index.ts';
import { defaultInboxLimit } from './ports/index.ts';
import type { MemoryBudget } from './runtime/memory-budget.ts';
import type { TranscriptCache } from './run/context/transcript-cache.ts';
import type { InvocationRunner } from './sessions/invocation-runner.ts';

export interface Settings {
  /** The id of this process among the nodes on one store. */
  readonly node: string;
  readonly leaseTtlMs: number;
  readonly approvalTtlMs: number;
  /** How long a client has to post the result of a function tool. */
  readonly toolResultTimeoutMs: number;
  readonly maxActiveRuns: number;
  /** How long tools may finish when a run is canceled or reaches its time limit. */
  readonly graceMs: number;
  /**
   * How long tools may finish when this node stops driving their run. Idempotent tools run again, so they get
   * no more than `graceMs`.
   */
  readonly stopTimeoutMs: number;
  /** How often a model is called for one turn, if it fails for now. */
  readonly providerAttempts: number;
  /** How long a turn may wait between these attempts in all. */
  readonly providerWaitMs: number;
  /** The most characters (UTF-16 code units) of text, reasoning and tool calls in one turn. */
  readonly maxAnswerChars: number;
  /**
   * How long a process has run before it resumes a suspect (supervisor.ts). A server that is killed again
   * and again in less time than that blames no run for it, and one that a run kills works in between.
   */
  readonly suspectDelayMs: number;
  /**
   * How much later than its time an approval expires: an answer in time may still be on its way into
   * the store. An expiry that conflicts with a stored answer fences the append, and the run is recovered.
   */
  readonly lateAnswerMs: number;
  /** How long a message waits for a session that is offline, before its delivery fails. */
  readonly deliveryTtlMs: number;
  /** The most messages that wait for one session. */
  readonly inboxLimit: InboxLimit;
  readonly compaction: CompactionSettings;
}

/** When and how a summary replaces older turns. */
export interface CompactionSettings {
  /** The part of the window above which a turn is preceded by a compaction. */
  readonly threshold: number;
  /** The part of the window that recent turns keep. */
  readonly keep: number;
  /** Assumed for models whose window is unknown; default: only a refused request is compacted. */
  readonly windowTokens?: number;
  /** The model that summarizes; default: the agent's own. */
  readonly model?: string;
}

/** The rules of a program that runs agents in-process. It may change them at any time. */
export interface ProgramRules {
  current(): Permissions;
  /** Removes an allow-once rule at the moment at which it allows a call. */
  useOnce(index: number): void;
}

export const defaultSettings: Omit<Settings, 'node'> = {
  leaseTtlMs: 15_000,
  approvalTtlMs: 24 * 60 * 60 * 1000,
  toolResultTimeoutMs: 10 * 60 * 1000,
  maxActiveRuns: 256,
  graceMs: 5_000,
  stopTimeoutMs: 30_000,
  providerAttempts: 9,
  providerWaitMs: 60_000,
  maxAnswerChars: 4 * 1024 * 1024,
  suspectDelayMs: 5_000,
  lateAnswerMs: 250,
  deliveryTtlMs: 10 * 60 * 1000,
  inboxLimit: defaultInboxLimit,
  compaction: { threshold: 0.8, keep: 0.3 },
};

/** What a request has done with a message. */
export interface MessageNotice {
  readonly messageId: string;
  /** It is new. */
  readonly isSent: boolean;
  /** Those with a new status. */
  readonly deliveries: readonly Pick<NewDelivery, 'id' | 'status'>[];
}

/** What driving runs depends on, built once by the composition root. */
export interface Engine {
  readonly store: SystemStore;
  readonly transcripts: TranscriptCache;
  /** Of the runs that this node drives. */
  readonly memory: MemoryBudget;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly digest: Digest;
  readonly publisher: Publisher;
  readonly log: Log;
  /** Removes known keys from what tools return, before it is stored (E8). Default: nothing is removed. */
  readonly redact?: (text: string) => string;
  readonly settings: Settings;
  models(tenantId: string): ModelRegistry;
  tools(tenantId: string): ToolRegistry;
  /** The workspace folder of a tenant, as a real path. Default: there is none. */
  readonly workspace?: (tenantId: string) => string | undefined;
  agents(tenantId: string): AgentRegistry;
  /** Makes the record of an audit entry; default: there is no audit trail. */
  readonly audit?: (tenantId: string, entry: AuditEntry) => NewAuditEntry;
  /** Writes the entry of a refused decision, or counts it as a repetition; default: writes each. */
  readonly refused?: (
    tenantId: string,
    subject: readonly string[],
    entry: AuditEntry,
  ) => Promise<void>;
  /** The budgets that a run of this key counts for; default: none. */
  readonly budgets?: (tenantId: string, keyId: string | null) => Promise<readonly RunBudget[]>;
  /** A run has a command in its inbox. Default: the scan finds it. */
  readonly notifyRun?: (run: RunRef) => void;
  /** A session may have a next turn. Default: the scan finds it. */
  readonly sessionDue?: (session: SessionRef) => void;
  /** Called when messages and deliveries are stored or changed. It may not throw. */
  readonly onMessage?: (tenantId: string, change: MessageNotice) => void;
  /** Carries out invocations of actions. Default: there are none. */
  readonly invocations?: InvocationRunner;
  /** Called when an invocation is stored, and when it has ended. It may not throw. */
  readonly onInvocation?: (
    tenantId: string,
    invocation: Pick<NewInvocation, 'id' | 'status'>,
  ) => void;
  /** Called when an approval without a run is stored, or has changed. It may not throw. */
  readonly onApproval?: (
    tenantId: string,
    approval: { readonly id: string; readonly isNew: boolean },
  ) => void;
  /** Default: memories are searched by words only. */
  readonly embedders?: Embedders;
  /** Default: a run keeps the rules that it was started with. */
  readonly rules?: (run: RunRef) => ProgramRules;
}
