import type { FieldIssue, ToolPermission } from '@relay/protocol';
import type { ToolSpec } from './model.ts';

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
  progress(text: string): void;
}

/** `context` is what the model reads; `result` is what programs get. */
export interface ToolOutput {
  readonly context?: string;
  readonly result?: unknown;
}

export type Validation =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly FieldIssue[] };

export interface Tool extends ToolSpec {
  /** Runs without a relay unless a rule denies it. */
  readonly allowedByDefault: boolean;
  /** Safe to run again after a crash, with the same idempotency key. */
  readonly idempotent: boolean;
  /** What to do when a crash left the outcome unknown and the tool is not idempotent. */
  readonly onUnknown: 'ask' | 'fail';
  validate(input: unknown): Validation;
  execute(input: unknown, context: ToolContext): Promise<ToolOutput>;
  /** The rule to suggest when a person says "always". */
  readonly derivePermission?: (input: Record<string, unknown>) => ToolPermission;
}

export interface ToolRegistry {
  find(name: string): Tool | undefined;
  list(): readonly Tool[];
}
