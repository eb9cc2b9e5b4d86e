import type { LimitName } from '../schemas/limits.ts';
import type { ApprovalKind, ApprovalStatus } from '../schemas/approvals.ts';
import type { EndedStatus } from '../schemas/runs.ts';

/** What a sub-agent's frames carry besides; the first agent's do not. */
type OfSubAgent = {
  agentId?: string;
};

/** Tokens as `/v1/runs` counts them. */
export interface WireUsage {
  input_tokens: number;
  output_tokens: number;
  cached_input_tokens?: number | undefined;
  cache_write_tokens?: number | undefined;
  reasoning_tokens?: number | undefined;
}

/** Every frame of `/v1/runs`, by its `type`. */
export type RunsFrame =
  | TokenFrame
  | ResetFrame
  | ToolCallFrame
  | ToolResultFrame
  | ApprovalFrame
  | ApprovalExpiringFrame
  | ApprovalResolvedFrame
  | ErrorFrame
  | DoneFrame;

export type TokenFrame = { type: 'token'; text: string };

/** Tokens whose id is higher than `after` are void: they are said again, or otherwise. */
export type ResetFrame = { type: 'reset'; after: number };

export type ToolCallFrame = OfSubAgent & {
  type: 'tool_call';
  id: string;
  name: string;
  input: unknown;
  /** Until when a client may bring the result: the call is one of a function tool. */
  resultBy?: string | undefined;
};

/** `output` is what the tool gave; of a call without a result, `{status, …}`. */
export type ToolResultFrame = OfSubAgent & { type: 'tool_result'; id: string; output: unknown };

export type ApprovalFrame = {
  type: 'approval_requested';
  id: string;
  kind: ApprovalKind;
  toolCallId: string;
  tool: string;
  params: unknown;
  agentId: string;
  parentId?: string;
  /** Who asks, from the first agent down, where it is not the first agent itself. */
  agentPath?: readonly string[];
  /** Of a question: what is asked, and the JSON Schema of its answer. */
  prompt?: string | undefined;
  schema?: Readonly<Record<string, unknown>> | undefined;
};

export type ApprovalExpiringFrame = { type: 'approval_expiring'; id: string; expiresAt: string };

export type ApprovalResolvedFrame = {
  type: 'approval_resolved';
  id: string;
  status: Exclude<ApprovalStatus, 'pending'>;
  /** What was approved instead of `params`, where a person changed it. */
  executedParams?: unknown;
};

export type ErrorFrame = { type: 'error'; error: string; code: string; retryable: boolean };

/** The last frame of every run. */
export type DoneFrame = {
  type: 'done';
  status: EndedStatus;
  output: string;
  usage: WireUsage;
  limit?: LimitName;
};
