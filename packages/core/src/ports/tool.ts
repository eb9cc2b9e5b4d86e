import type { FieldIssue, ToolPermission } from '@relay/protocol';
import type { ParameterKind } from '../permission/match.ts';
import type { AgentReport, Task } from './agent.ts';
import type { ToolSpec } from './model.ts';
import type { MemoryRecord, RankedMemory } from './stored-memories.ts';

export interface ToolContext {
  readonly signal: AbortSignal;
  readonly tenantId: string;
  readonly runId: string;
  readonly agentId: string;
  readonly toolCallId: string;
  /** The same for every attempt at this call, so that a tool can recognise a repetition. */
  readonly idempotencyKey: string;
  /** What the caller handed along for tools; the model never sees it. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly progress: (text: string) => void;
  /** Where path parameters led when the call was allowed: a tool opens nothing else. */
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  /**
   * Lets a sub-agent of this run do something, and waits for it. After a crash, a tool that is
   * `idempotent` runs again and finds the agents that it had spawned, in the same order.
   */
  readonly spawn: (task: Task) => Promise<AgentReport>;
  /** Left out in a run without memory. */
  readonly memory?: RunMemory;
  /**
   * Asks a person, and gives their answer, which fits the schema; rejects with `question_declined` if
   * there is none. A tool that is `idempotent` is suspended meanwhile: the promise rejects with
   * `ToolSuspended`, which the tool must not catch, and the tool runs again with the answer. Up to here
   * it must do the same each time. Any other tool waits in memory.
   */
  readonly ask: (question: Question) => Promise<unknown>;
}

/**
 * The tool has asked and is suspended until the answer is there; then it runs again. Let it pass: the
 * tool's `finally` blocks run, and whatever this attempt still returns or throws is ignored.
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
  /** Once a call, however often it is attempted. */
  remember(text: string): Promise<MemoryRecord>;
  /** False if there is none of this id in the namespace. */
  forget(memoryId: string): Promise<boolean>;
}

export interface Question {
  readonly prompt: string;
  /** A JSON schema of the answer. */
  readonly schema: Readonly<Record<string, unknown>>;
}

/** `context` is what the model reads; `result` is what programs get. */
export interface ToolOutput {
  readonly context?: string | undefined;
  readonly result?: unknown;
}

export type Validation =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly FieldIssue[] };

/** Where path parameters lead, links followed; `root` is the folder that relative ones start from. */
export interface ResolvedPaths {
  readonly root: string;
  readonly paths: Readonly<Record<string, string>>;
}

export type Locating =
  | { readonly ok: true; readonly resolvedPaths?: ResolvedPaths }
  | { readonly ok: false; readonly problem: string };

export interface Tool extends ToolSpec {
  /** Runs without an approval unless a rule denies it. */
  readonly allowedByDefault: boolean;
  /** Safe to run again after a crash, with the same idempotency key. */
  readonly idempotent: boolean;
  /** What to do when a crash left the outcome unknown and the tool is not idempotent. */
  readonly onUnknown: 'ask' | 'fail';
  /** There only in runs with memory. */
  readonly needsMemory?: boolean;
  /** What a parameter is, where it is more than text: rules about it are read accordingly. */
  readonly kinds?: Readonly<Record<string, ParameterKind>>;
  /** Parameters that a rule must name, if it names any and the call has them. */
  readonly sensitive?: readonly string[];
  /** Works in the tenant's own folder. */
  readonly inWorkspace?: boolean;
  /**
   * Looks where path parameters lead now. Rules judge that besides their text, and an approval holds
   * only while it stays so.
   */
  readonly locate?: (input: Readonly<Record<string, unknown>>) => Promise<Locating>;
  /**
   * Instead of `execute`: a sub-agent does the work, and the call ends with it. Meanwhile nothing
   * is in flight, so that the run can wait for people without a process.
   */
  readonly delegates?: (input: unknown) => Task;
  /**
   * Instead of `execute`: a client runs it and posts the result, within this time or the one that
   * the server sets. Meanwhile nothing is in flight here.
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
