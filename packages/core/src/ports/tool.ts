import type {
  JsonSchema,
  ParameterKind,
  ParsedInput,
  Preview,
  ToolOutput,
  ToolPermission,
  ToolSchema,
  Validation,
} from '@relay/protocol';
import type { AgentReport, Task } from './agent.ts';
import type { ToolSpec } from './model.ts';
import type { MessageDraft, SentMessage } from '../commands/sessions/send-message.ts';
import type { MemoryRecord, RankedMemory } from './memories.ts';
import type { InvocationRecord, SessionRecord } from './sessions.ts';

export type AllowedBy = 'rule' | 'person';

export interface ToolContext {
  readonly signal: AbortSignal;
  readonly tenantId: string;
  readonly runId: string;
  readonly agentId: string;
  readonly toolCallId: string;
  /** The same for every attempt at this call, so that a tool can recognize a repetition. */
  readonly idempotencyKey: string;
  /** Whether a rule allowed this call, or a person approved it. The same for every attempt. */
  readonly allowedBy: AllowedBy;
  /** Passed by the caller to tools; the model never sees it. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly progress: (text: string) => void;
  /** Where path parameters led when the call was allowed. A tool must open nothing else. */
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  /** The digest of the preview that an approver was shown. A tool must do nothing else. */
  readonly previewDigest?: string;
  /**
   * Runs a sub-agent and waits for it. After a crash an `idempotent` tool runs again and gets the
   * agents that it had spawned, in the same order.
   */
  readonly spawn: (task: Task) => Promise<AgentReport>;
  /** Only in runs with memory. */
  readonly memory?: RunMemory;
  /** Only in turns of sessions. */
  readonly session?: RunSession;
  /**
   * Asks a person and returns the answer, which matches the schema; rejects with `question_declined`
   * if there is none. An `idempotent` tool is suspended: the promise rejects with `ToolSuspended`, which
   * the tool must not catch, and the tool runs again once the answer is there. Until then it must behave
   * the same each time. Other tools wait in memory.
   */
  readonly ask: <const Schema extends ToolSchema>(
    question: Question<Schema>,
  ) => Promise<ParsedInput<Schema>>;
}

/**
 * The tool asked a question and runs again once it is answered. Do not catch this error. The tool's
 * `finally` blocks run; what this attempt still returns or throws is ignored.
 */
export class ToolSuspended extends Error {
  override readonly name = 'ToolSuspended';

  constructor() {
    super('The tool is suspended until its question is answered; it will run again');
  }
}

/** The memories of the run's namespace. */
export interface RunMemory {
  search(query: string, limit: number): Promise<RankedMemory[]>;
  /** Stored once per call, however often the call is attempted. */
  remember(text: string): Promise<MemoryRecord>;
  /** False if the namespace has no such memory. */
  forget(memoryId: string): Promise<boolean>;
}

/** The session whose turn the run is. What a call makes is made once, however often it is attempted. */
export interface RunSession {
  /** Throws why no recipient takes the message. */
  send(message: Omit<MessageDraft, 'idempotencyKey'>): Promise<SentMessage>;
  /** The sessions that are not released, newest first; not all if there are many. */
  list(): Promise<{ readonly sessions: readonly ListedSession[]; readonly isWhole: boolean }>;
  /** The invocation when it has ended, or as it is after some minutes. */
  invoke(action: string, input: unknown): Promise<InvocationRecord>;
}

export interface ListedSession extends Pick<SessionRecord, 'handle' | 'name' | 'kind' | 'status'> {
  readonly isYou?: true;
}

export interface Question<Schema extends ToolSchema = JsonSchema> {
  readonly prompt: string;
  /** Of the answer: a Standard Schema (zod, valibot, arktype, …) or a JSON Schema. */
  readonly schema: Schema;
}

export type { ToolOutput, Validation };

/** Path parameters with links followed; relative paths start from `root`. */
export interface ResolvedPaths {
  readonly root: string;
  readonly paths: Readonly<Record<string, string>>;
}

export type PathResolution =
  | {
      readonly ok: true;
      readonly resolvedPaths?: ResolvedPaths;
      /** Why a person must approve this call, whatever allows it. */
      readonly needsApproval?: string;
    }
  | { readonly ok: false; readonly problem: string };

export interface Tool extends ToolSpec {
  /** Runs without an approval unless a rule denies it. */
  readonly allowedByDefault: boolean;
  /** A person must approve each call, whatever allows it. Default: false. */
  readonly needsApproval?: boolean;
  /** Safe to run again after a crash, with the same idempotency key. */
  readonly idempotent: boolean;
  /** What to do when a crash left the outcome unknown and the tool is not idempotent. */
  readonly onUnknown: 'ask' | 'fail';
  /**
   * For a tool whose definition another program supplies: identifies what it says. Grants and approvals
   * hold only for the definition that a person saw. Empty while the definition is not known.
   */
  readonly definitionDigest?: string;
  /**
   * Why a call would fail now, such as a server that is down; undefined if it can run. No person is asked to
   * approve a call that cannot run.
   */
  readonly unavailable?: () => string | undefined;
  /** Offered only in runs with memory. */
  readonly needsMemory?: boolean;
  /** Offered only in turns of sessions, to their root agent, whatever tools its profile names. */
  readonly needsSession?: boolean;
  /** The kinds of parameters that are more than text; rules are matched accordingly. */
  readonly kinds?: Readonly<Record<string, ParameterKind>>;
  /** Parameters that a rule with parameters must name, if the call has them. */
  readonly sensitive?: readonly string[];
  /**
   * Resolves path parameters. Rules match the resolved paths as well as the text, and an approval is
   * valid only while they stay the same. It may refuse the call, or demand a person for it.
   */
  readonly resolvePaths?: (input: Readonly<Record<string, unknown>>) => Promise<PathResolution>;
  /**
   * What a call would do, for the approver: it is called once, when the approval is requested. It has
   * no effects and does not throw.
   */
  readonly preview?: (
    input: Readonly<Record<string, unknown>>,
    resolvedPaths: Readonly<Record<string, string>>,
  ) => Promise<Preview>;
  /**
   * Instead of `execute`: a sub-agent does the work, and the call ends with it. The run can wait for
   * approvals meanwhile without a process.
   */
  readonly delegates?: (input: unknown) => Task;
  /**
   * Instead of `execute`: a client runs it and posts the result, within this time or the server's
   * default.
   */
  readonly client?: { readonly timeoutMs?: number };
  validate(input: unknown): Validation;
  execute(input: unknown, context: ToolContext): Promise<ToolOutput>;
  /** The rule to suggest when a person says "always". */
  readonly derivePermission?: (input: Record<string, unknown>) => ToolPermission | undefined;
}

export interface ToolRegistry {
  find(name: string): Tool | undefined;
  list(): readonly Tool[];
}
