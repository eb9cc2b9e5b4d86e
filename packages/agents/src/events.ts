/** What an agent tells while it works: the words of `POST /chat`, as typed objects. */
import type { LimitName, PermissionResponse, ToolPermission, Usage } from '@relay/protocol';

interface OfAgent {
  readonly runId: string;
  readonly agentId: string;
  /** The agent that spawned it; left out for the first one. */
  readonly parentId?: string;
}

export interface HarnessStartEvent extends OfAgent {
  readonly type: 'harness_start';
}

/** Pieces with the same id belong together. */
export interface TextEvent extends OfAgent {
  readonly type: 'text';
  readonly id: string;
  readonly content: string;
}

/** What the model thinks before it answers, if its provider tells; pieces as of a text. */
export interface ReasoningEvent extends OfAgent {
  readonly type: 'reasoning';
  readonly id: string;
  readonly content: string;
}

/** What was said under this id is void: the provider failed and is asked again. */
export interface TextDiscardEvent extends OfAgent {
  readonly type: 'text_discard';
  readonly id: string;
}

export interface ToolCallEvent extends OfAgent {
  readonly type: 'tool_call';
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

export interface ToolProgressEvent extends OfAgent {
  readonly type: 'tool_progress';
  readonly id: string;
  readonly toolCallId: string;
  readonly name: string;
  readonly content: string;
}

export type ToolResultOutput =
  | { readonly context?: string | undefined; readonly result?: unknown; readonly status?: never }
  | { readonly status: 'denied' | 'expired'; readonly reason?: string }
  | { readonly status: 'error'; readonly error: string; readonly code: string };

export interface ToolResultEvent extends OfAgent {
  readonly type: 'tool_result';
  readonly id: string;
  readonly name: string;
  readonly output: ToolResultOutput;
}

/** How a relay is answered. A plain boolean will do where it is not known which of the two it is. */
export type RelayResponse =
  | PermissionResponse
  | {
      readonly approved: boolean;
      readonly always?: boolean | undefined;
      readonly reason?: string | undefined;
      /** The answer to a question. */
      readonly input?: unknown;
    };

/** A call that no rule allows: it waits for an answer. */
export interface RelayEvent extends OfAgent {
  readonly type: 'relay';
  readonly kind: 'permission' | 'question' | 'outcome';
  readonly id: string;
  readonly toolCallId: string;
  readonly tool: string;
  readonly params: Record<string, unknown>;
  /** Of a question: what the tool asks, and a JSON schema of the answer. */
  readonly prompt?: string;
  readonly schema?: Readonly<Record<string, unknown>>;
  /** The names of the agents from the first one down to the one that asks. */
  readonly agentPath: readonly string[];
  /** The rule that the tool proposes for calls like this one. */
  readonly suggestedRule?: ToolPermission;
  /** The first answer counts; later ones change nothing. */
  readonly respond: (response: RelayResponse) => void;
}

export interface HandoffEvent extends OfAgent {
  readonly type: 'handoff';
  readonly from: string;
  readonly to: string;
}

/** One more turn without tools follows, and then the end. */
export interface LimitEvent extends OfAgent {
  readonly type: 'limit';
  readonly limit: LimitName;
}

export interface UsageEvent extends OfAgent, Usage {
  readonly type: 'usage';
}

export interface ErrorEvent {
  readonly type: 'error';
  readonly runId: string;
  readonly agentId?: string;
  readonly message: string;
  readonly code: string;
}

export interface HarnessEndEvent extends OfAgent {
  readonly type: 'harness_end';
  readonly reason: 'completed' | 'failed' | 'canceled' | 'limit';
  readonly iterations: number;
  readonly totalUsage: Usage;
}

export type AgentEvent =
  | HarnessStartEvent
  | TextEvent
  | ReasoningEvent
  | TextDiscardEvent
  | ToolCallEvent
  | ToolProgressEvent
  | ToolResultEvent
  | RelayEvent
  | HandoffEvent
  | LimitEvent
  | UsageEvent
  | ErrorEvent
  | HarnessEndEvent;
