import { defined } from '../defined.ts';
import { type Display, displayUnlessPlain } from '../display/display.ts';
import type { EventOf, RuleRef, StoredEvent } from '../events/catalogue.ts';

/** The ids of a run that frames may show. */
export interface RunHeader {
  readonly runId: string;
  readonly conversationId: string;
  readonly correlationId: string;
}

/** The JSON of one frame. */
export interface Frame {
  readonly type: string;
  readonly [field: string]: unknown;
}

/**
 * The wire format of one surface. A pure projection of the journal, so that any node can resume a
 * stream at any `seq`. One event becomes at most one frame.
 */
export interface Dialect {
  readonly name: string;
  /** Whether the SSE `event:` field repeats the frame's type. */
  readonly namesEvents: boolean;
  project(event: StoredEvent, run: RunHeader): Frame | undefined;
}

export type AgentEvent = Extract<StoredEvent, { agentId: string }>;

/** Adds the `agentId` to a frame of a sub-agent. */
export function withAgentId<const Shape extends Frame>(
  event: AgentEvent,
  frame: Shape,
): Shape & { agentId?: string } {
  return event.parentId === undefined ? frame : { ...frame, agentId: event.agentId };
}

/** The agents from the root to the one that asks; only for a sub-agent. */
export function agentPathOf(event: EventOf<'approval.requested'>): {
  agentPath?: readonly string[];
} {
  return event.parentId === undefined ? {} : { agentPath: event.agentPath };
}

/** The question of a tool, and the JSON Schema of its answer. */
export function questionOf({ question }: EventOf<'approval.requested'>) {
  return question === undefined ? {} : { prompt: question.prompt, schema: question.schema };
}

/** What to show an approver, where the tool and its arguments alone would mislead. */
export function shownWith(event: EventOf<'approval.requested'>): {
  resolvedPaths?: Readonly<Record<string, string>>;
  display?: Display;
} {
  return defined({ resolvedPaths: event.resolvedPaths, display: displayUnlessPlain(event) });
}

/** The place of a rule; its id is for those who may read the policy. */
export type RulePlace = Pick<RuleRef, 'list' | 'index' | 'source'>;

/** The rule that has denied a call, as a field of a frame. */
export function deniedBy(event: FailedOrDenied): { rule?: RulePlace } {
  if (event.type !== 'tool.denied' || event.rule === undefined) return {};
  const { list, index, source } = event.rule;
  return { rule: { list, index, source } };
}

type FailedOrDenied = EventOf<'tool.failed'> | EventOf<'tool.denied'>;

/** The output of a call without a result, as dialects show it and the model reads it. */
export function failureOutput(event: FailedOrDenied): Record<string, unknown> {
  if (event.type === 'tool.failed') {
    return { status: 'error', error: event.error, code: event.code };
  }
  return event.reason === undefined
    ? { status: event.status }
    : { status: event.status, reason: event.reason };
}
