import { defined } from '../defined.ts';
import type { EventOf, RuleRef } from '../events/catalogue.ts';
import type { Display } from '../display/display.ts';
import type { Dialect, Frame, RunHeader } from './dialect.ts';
import {
  type AgentEvent,
  agentPathOf,
  deniedBy,
  failureOutput,
  questionOf,
  type RulePlace,
  shownWith,
} from './dialect.ts';
import type { AttachmentPart } from '../schemas/messages.ts';
import type { ApprovalKind, EarlierDenial } from '../schemas/permissions.ts';
import type { AgentEnd, FinishReason, Usage } from '../schemas/runs.ts';

/** The agent of a frame; a sub-agent also has its parent. */
interface AgentIds {
  runId: string;
  agentId: string;
  parentId?: string;
}

/** Every frame of `POST /chat`, by its `type`. `connected` comes first. */
export type ChatFrame =
  | { type: 'connected'; sessionId: string; conversationId: string }
  | (AgentIds &
      (
        | { type: 'harness_start' }
        /** Deltas with the same id form one text. */
        | { type: 'text' | 'reasoning'; id: string; content: string }
        /** Discard the text with this id: the turn is retried. */
        | { type: 'text_discard'; id: string }
        | { type: 'tool_call'; id: string; name: string; input: unknown }
        | { type: 'tool_progress'; id: string; toolCallId: string; name: string; content: string }
        | {
            type: 'tool_result';
            id: string;
            name: string;
            output: ChatToolOutput;
            /** The rule that has denied the call. */
            rule?: RulePlace;
          }
        | {
            type: 'relay';
            kind: ApprovalKind;
            id: string;
            toolCallId: string;
            tool: string;
            params: unknown;
            agentPath?: readonly string[];
            /** Where path parameters lead. */
            resolvedPaths?: Readonly<Record<string, string>>;
            /** What to show an approver, where the tool and its arguments alone would mislead. */
            display?: Display;
            earlierDenial?: EarlierDenial;
            rule?: RuleRef;
          }
        /** The approver changed the arguments of the call: it runs with these. */
        | {
            type: 'relay_resolved';
            id: string;
            toolCallId: string;
            status: 'approved';
            executedParams: unknown;
          }
        | ({ type: 'usage' } & Usage)
        | {
            type: 'harness_end';
            reason: AgentEnd;
            iterations: number;
            totalUsage: Usage;
            /** How the last answer ended; unset if there is none, or the provider did not say. */
            finishReason?: FinishReason;
          }
      ))
  | { type: 'error'; runId: string; agentId?: string; message: string; code: string };

/** The output of a tool, or the `status` of a call without a result. */
export interface ChatToolOutput {
  context?: string;
  result?: unknown;
  /** Images and files that the model was shown. */
  attachments?: readonly AttachmentPart[];
  status?: 'denied' | 'expired' | 'error';
  reason?: string;
  error?: string;
  code?: string;
}

/** The dialect of `POST /chat`. */
export const chat: Dialect = {
  name: 'chat',
  namesEvents: true,
  project(event, run) {
    switch (event.type) {
      case 'agent.started':
        return framed(event, run, { type: 'harness_start' });
      case 'text.appended':
        return framed(event, run, { type: 'text', id: event.textId, content: event.text });
      case 'reasoning.appended':
        return framed(event, run, {
          type: 'reasoning',
          id: event.reasoningId,
          content: event.text,
        });
      case 'turn.discarded':
        return framed(event, run, { type: 'text_discard', id: event.textId });
      case 'turn.completed':
        return framed(event, run, { type: 'usage', ...event.usage });
      case 'tool.called':
        return framed(event, run, {
          type: 'tool_call',
          id: event.toolCallId,
          name: event.name,
          input: event.input,
        });
      case 'tool.progressed':
        return framed(event, run, {
          type: 'tool_progress',
          id: event.progressId,
          toolCallId: event.toolCallId,
          name: event.name,
          content: event.content,
        });
      case 'tool.completed':
        return toolResult(event, run, {
          context: event.context,
          result: event.result,
          ...defined({ attachments: event.attachments }),
        });
      case 'tool.failed':
      case 'tool.denied':
        return toolResult(event, run, failureOutput(event), deniedBy(event));
      case 'approval.requested':
        return framed(event, run, {
          type: 'relay',
          kind: event.kind,
          id: event.approvalId,
          toolCallId: event.toolCallId,
          tool: event.tool,
          params: event.params,
          ...questionOf(event),
          ...agentPathOf(event),
          ...shownWith(event),
          ...defined({ earlierDenial: event.earlierDenial, rule: event.rule }),
        });
      // `tool_call` has shown the original arguments: what runs instead must be visible too.
      case 'approval.decided':
        return event.input === undefined
          ? undefined
          : framed(event, run, {
              type: 'relay_resolved',
              id: event.approvalId,
              toolCallId: event.toolCallId,
              status: 'approved',
              executedParams: event.input,
            });
      case 'run.errored':
        return {
          type: 'error',
          runId: run.runId,
          ...defined({ agentId: event.agentId }),
          message: event.error.message,
          code: event.error.code,
        };
      case 'agent.ended':
        return framed(event, run, {
          type: 'harness_end',
          reason: event.reason,
          iterations: event.iterations,
          totalUsage: event.usage,
          ...defined({ finishReason: event.finishReason }),
        });
      case 'run.created':
      case 'run.started':
      case 'run.suspended':
      case 'run.resumed':
      case 'run.summarized':
      case 'run.ended':
      case 'agent.handed-off':
      case 'agent.switched':
      case 'limit.reached':
      case 'context.compacted':
      case 'memory.recalled':
      case 'memory.stored':
      case 'message.added':
      case 'turn.started':
      case 'tool.started':
      case 'approval.expiring':
      case 'approval.expired':
      case 'approval.closed':
        return undefined;
    }
  },
};

function framed(event: AgentEvent, run: RunHeader, frame: Frame): Frame {
  const { type, ...rest } = frame;
  return event.parentId === undefined
    ? { type, runId: run.runId, agentId: event.agentId, ...rest }
    : { type, runId: run.runId, agentId: event.agentId, parentId: event.parentId, ...rest };
}

type SettledEvent = AgentEvent & EventOf<'tool.completed' | 'tool.failed' | 'tool.denied'>;

function toolResult(
  event: SettledEvent,
  run: RunHeader,
  output: unknown,
  denied: ReturnType<typeof deniedBy> = {},
): Frame {
  return framed(event, run, {
    type: 'tool_result',
    id: event.toolCallId,
    name: event.name,
    output,
    ...denied,
  });
}
