import { defined } from '../defined.ts';
import type { EventOf, RuleRef, Stored } from '../events/catalogue.ts';
import { wireUsage } from '../schemas/runs.ts';
import type { AttachmentPart, MessageContent, Sender } from '../schemas/messages.ts';
import type { Display } from '../display/display.ts';
import type { Dialect } from './dialect.ts';
import {
  withAgentId,
  failureOutput,
  agentPathOf,
  deniedBy,
  questionOf,
  type RulePlace,
  shownWith,
} from './dialect.ts';
import type { ApprovalStatus } from '../schemas/names.ts';
import type { ApprovalKind, EarlierDenial, OutcomeAnswer } from '../schemas/permissions.ts';
import type { EndedStatus, FinishReason, LimitName, RunError, WireUsage } from '../schemas/runs.ts';

/** Set on frames of sub-agents only. */
type SubAgentId = { agentId?: string };

/** Every frame of `/v1/runs`, by its `type`. `run` comes first, `done` last. */
export type RunsFrame =
  | { type: 'run'; id: string; conversationId: string; agent: string }
  /** The root agent hands off the conversation; `agent_switch` follows when the next agent starts. */
  | { type: 'handoff'; from: string; to: string }
  | { type: 'agent_switch'; agentName: string }
  | { type: 'token'; text: string }
  /**
   * Discard the tokens with an id above `after`: the turn is retried. `retry` is set if the provider failed: it is
   * called again after `delayMs`.
   */
  | {
      type: 'reset';
      after: number;
      retry?: { attempt: number; delayMs: number; code?: string };
    }
  /** A message entered the run while it was working: the next answer of the root agent has read it. */
  | { type: 'message'; id: string; from: Sender; channel?: string; content: MessageContent }
  | ToolCallFrame
  /** `output` is the tool's result, or `{status, …}` for a call without one. */
  | (SubAgentId & {
      type: 'tool_result';
      id: string;
      output: unknown;
      /** Images and files that the model was shown. */
      attachments?: readonly AttachmentPart[];
      /** The rule that has denied the call. */
      rule?: RulePlace | undefined;
    })
  | {
      type: 'approval_requested';
      id: string;
      kind: ApprovalKind;
      toolCallId: string;
      tool: string;
      params: unknown;
      agentId: string;
      parentId?: string;
      /** The agents from the root to the one that asks; only for a sub-agent. */
      agentPath?: readonly string[];
      /** Set for a question: its text, and the JSON Schema of the answer. */
      prompt?: string | undefined;
      schema?: Readonly<Record<string, unknown>> | undefined;
      /** Where path parameters lead. */
      resolvedPaths?: Readonly<Record<string, string>>;
      /** What to show an approver, where the tool and its arguments alone would mislead. */
      display?: Display;
      /** A person has denied the same call before in this run. */
      earlierDenial?: EarlierDenial | undefined;
      /** The rule that demands a person for each such call: `always` has no effect while it stands. */
      rule?: RuleRef | undefined;
    }
  | { type: 'approval_expiring'; id: string; expiresAt: string }
  | {
      type: 'approval_resolved';
      id: string;
      status: Exclude<ApprovalStatus, 'pending'>;
      /** The arguments that were approved, if the approver changed them. */
      executedParams?: unknown;
      /** The answer to an approval of kind `outcome`. */
      outcome?: OutcomeAnswer | undefined;
    }
  | {
      type: 'error';
      error: string;
      code: string;
      retryable: boolean;
      /** The guardrail that refused the input or the output. */
      guardrail?: RunError['guardrail'];
    }
  | DoneFrame;

type ToolCallFrame = SubAgentId & {
  type: 'tool_call';
  id: string;
  name: string;
  input: unknown;
  /** Set for a function tool: until when a client may post the result. */
  resultBy?: string | undefined;
};

export type DoneFrame = {
  type: 'done';
  status: EndedStatus;
  /** At most 256 KiB of it. */
  output: string;
  /** The output is longer; the run has all of it. */
  outputTruncated?: true;
  usage: WireUsage;
  /** The agent that answered; unset if the run never started. */
  agent?: string;
  limit?: LimitName;
  /** How the last answer ended; unset if there is none, or the provider did not say. */
  finishReason?: FinishReason;
};

/** The dialect of `/v1/runs`. It shows the text of the root agent only. */
export const runs: Dialect = {
  name: 'runs',
  namesEvents: false,
  project(event, run): RunsFrame | undefined {
    switch (event.type) {
      case 'run.created':
        return {
          type: 'run',
          id: run.runId,
          conversationId: event.conversationId,
          agent: event.agent,
        };
      case 'agent.handed-off':
        return event.parentId === undefined
          ? { type: 'handoff', from: event.from, to: event.to }
          : undefined;
      case 'agent.switched':
        return event.parentId === undefined
          ? { type: 'agent_switch', agentName: event.name }
          : undefined;
      case 'text.appended':
        return event.parentId === undefined ? { type: 'token', text: event.text } : undefined;
      case 'turn.discarded':
        if (event.parentId !== undefined) return undefined;
        return {
          type: 'reset',
          after: event.after,
          ...(event.retry && { retry: { ...event.retry, ...defined({ code: event.code }) } }),
        };
      case 'message.added':
        return {
          type: 'message',
          id: event.messageId,
          from: event.from,
          ...defined({ channel: event.channel }),
          content: event.content,
        };
      // A client runs its function when it receives this frame, so the call must have been allowed first.
      case 'tool.called':
        return event.via === 'client' ? undefined : toolCall(event);
      case 'tool.started':
        return event.via === 'client' ? toolCall(event) : undefined;
      case 'tool.completed':
        return withAgentId(event, {
          type: 'tool_result',
          id: event.toolCallId,
          output: event.result === undefined ? (event.context ?? null) : event.result,
          ...defined({ attachments: event.attachments }),
        });
      case 'tool.failed':
      case 'tool.denied':
        return withAgentId(event, {
          type: 'tool_result',
          id: event.toolCallId,
          output: failureOutput(event),
          ...deniedBy(event),
        });
      case 'approval.requested':
        return {
          type: 'approval_requested',
          id: event.approvalId,
          kind: event.kind,
          toolCallId: event.toolCallId,
          tool: event.tool,
          params: event.params,
          agentId: event.agentId,
          ...defined({
            parentId: event.parentId,
            earlierDenial: event.earlierDenial,
            rule: event.rule,
          }),
          ...questionOf(event),
          ...agentPathOf(event),
          ...shownWith(event),
        };
      case 'approval.expiring':
        return { type: 'approval_expiring', id: event.approvalId, expiresAt: event.expiresAt };
      case 'approval.decided':
        return {
          type: 'approval_resolved',
          id: event.approvalId,
          status: event.approved ? 'approved' : 'denied',
          ...defined({ executedParams: event.input, outcome: event.outcome }),
        };
      case 'approval.expired':
        return { type: 'approval_resolved', id: event.approvalId, status: 'expired' };
      case 'approval.closed':
        return { type: 'approval_resolved', id: event.approvalId, status: 'closed' };
      case 'run.errored':
        return {
          type: 'error',
          error: event.error.message,
          code: event.error.code,
          retryable: event.error.retryable,
          ...defined({ guardrail: event.error.guardrail }),
        };
      case 'run.ended':
        return {
          type: 'done',
          status: event.status,
          ...boundedOutput(event.output),
          usage: wireUsage(event.usage),
          ...defined({ agent: event.agent, limit: event.limit, finishReason: event.finishReason }),
        };
      case 'run.started':
      case 'run.suspended':
      case 'run.resumed':
      case 'run.summarized':
      case 'agent.started':
      case 'agent.ended':
      case 'limit.reached':
      case 'context.compacted':
      case 'memory.recalled':
      case 'memory.stored':
      case 'turn.started':
      case 'turn.completed':
      case 'reasoning.appended':
      case 'tool.progressed':
        return undefined;
    }
  },
};

const maxOutputBytes = 256 * 1024;

/** The tokens before it were the whole answer already. */
function boundedOutput(whole: string): Pick<DoneFrame, 'output' | 'outputTruncated'> {
  const output = truncate(whole, maxOutputBytes);
  return output.length === whole.length ? { output } : { output, outputTruncated: true };
}

/** The beginning of a text, at most so many bytes of UTF-8; the text itself if it is not longer. */
function truncate(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes) return text;
  let bytes = 0;
  for (let at = 0; at < text.length;) {
    const code = text.codePointAt(at) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > maxBytes) return text.slice(0, at);
    at += code < 0x10000 ? 1 : 2;
  }
  return text;
}

function toolCall(event: Stored<EventOf<'tool.called'> | EventOf<'tool.started'>>): ToolCallFrame {
  const { toolCallId: id, name, input } = event;
  const resultBy = event.type === 'tool.started' ? { resultBy: event.resultBy } : {};
  return withAgentId(event, { type: 'tool_call', id, name, input, ...resultBy });
}
