/** The events of an agent: those of `POST /chat`, as typed objects. */
import type {
  Display,
  EarlierDenial,
  FinishReason,
  LimitName,
  OutcomeAnswer,
  PermissionResponse,
  RuleRef,
  ToolPermission,
  Usage,
} from '@relay/protocol';

interface AgentFields {
  readonly runId: string;
  readonly agentId: string;
  /** The agent that spawned it; missing for the root agent. */
  readonly parentId?: string;
}

export interface HarnessStartEvent extends AgentFields {
  readonly type: 'harness_start';
}

/** Events with the same id are parts of one text. */
export interface TextEvent extends AgentFields {
  readonly type: 'text';
  readonly id: string;
  readonly content: string;
}

/** The reasoning of the model, if its provider sends it; in parts, like a text. */
export interface ReasoningEvent extends AgentFields {
  readonly type: 'reasoning';
  readonly id: string;
  readonly content: string;
}

/** Discards the text with this id: the provider failed and is called again. */
export interface TextDiscardEvent extends AgentFields {
  readonly type: 'text_discard';
  readonly id: string;
}

export interface ToolCallEvent extends AgentFields {
  readonly type: 'tool_call';
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

export interface ToolProgressEvent extends AgentFields {
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

export interface ToolResultEvent extends AgentFields {
  readonly type: 'tool_result';
  readonly id: string;
  readonly name: string;
  readonly output: ToolResultOutput;
}

/**
 * The answer to a relay. The second form accepts `approved: boolean`; the third answers a relay of kind
 * `outcome`, which `approved: true` does not.
 */
export type RelayResponse =
  | PermissionResponse
  | {
      readonly approved: boolean;
      readonly always?: boolean | undefined;
      readonly reason?: string | undefined;
      /** The answer to a question. */
      readonly input?: unknown;
    }
  | {
      readonly outcome: OutcomeAnswer;
      /** With `completed`: the result of the call. */
      readonly output?: unknown;
      readonly reason?: string | undefined;
    };

/** A call that no rule allows; it waits for an answer. */
export interface RelayEvent extends AgentFields {
  readonly type: 'relay';
  readonly kind: 'permission' | 'question' | 'outcome';
  readonly id: string;
  readonly toolCallId: string;
  readonly tool: string;
  readonly params: Record<string, unknown>;
  /**
   * What to show a person: the whole request, with the files that its paths lead to, the change to a
   * file as a diff, and misleading characters made visible.
   */
  readonly display: Display;
  /** Where path parameters lead. */
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  /** Of a question: its text, and a JSON schema of the answer. */
  readonly prompt?: string;
  readonly schema?: Readonly<Record<string, unknown>>;
  /** The names of the agents from the root agent to the requesting one. */
  readonly agentPath: readonly string[];
  /** A person has denied the same call before in this run: when, who, and why. */
  readonly earlierDenial?: EarlierDenial;
  /** What demands a person for each such call: `always` has no effect while it stands. */
  readonly rule?: RuleRef;
  /** The rule that the tool suggests for calls like this one. */
  readonly suggestedRule?: ToolPermission;
  /** Only the first answer counts. */
  readonly respond: (response: RelayResponse) => void;
}

export interface HandoffEvent extends AgentFields {
  readonly type: 'handoff';
  readonly from: string;
  readonly to: string;
}

/** One more turn without tools follows, then the run ends. */
export interface LimitEvent extends AgentFields {
  readonly type: 'limit';
  readonly limit: LimitName;
}

export interface UsageEvent extends AgentFields, Usage {
  readonly type: 'usage';
}

export interface ErrorEvent {
  readonly type: 'error';
  readonly runId: string;
  readonly agentId?: string;
  readonly message: string;
  readonly code: string;
}

export interface HarnessEndEvent extends AgentFields {
  readonly type: 'harness_end';
  readonly reason: 'completed' | 'failed' | 'canceled' | 'limit';
  readonly iterations: number;
  readonly totalUsage: Usage;
  /** How the last answer ended; unset if there is none, or the provider did not say. */
  readonly finishReason?: FinishReason;
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
