import { defined } from '../defined.ts';
import type { EventOf, Progress } from '../events/catalogue.ts';
import type { AgentEnd } from '../schemas/runs.ts';
import type { Dialect, Frame, RunHeader } from './dialect.ts';
import {
  type AgentEvent,
  withAgentId,
  failureOutput,
  agentPathOf,
  questionOf,
  shownWith,
} from './dialect.ts';

/** The status of an ended run in `/api/chat`. */
export const runtimeStatus = {
  completed: 'succeeded',
  failed: 'failed',
  canceled: 'canceled',
} as const;

/** The dialect of `/api/chat`. It shows the text of the root agent only. */
export const runtime: Dialect = {
  name: 'runtime',
  namesEvents: false,
  project(event, run) {
    switch (event.type) {
      case 'text.appended':
        return event.parentId === undefined
          ? { type: 'text_delta', content: event.text }
          : undefined;
      case 'turn.discarded':
        return event.parentId === undefined
          ? { type: 'text_reset', after: event.after }
          : undefined;
      case 'agent.switched':
        return event.parentId === undefined
          ? { type: 'agent_switch', agentName: event.name }
          : undefined;
      case 'agent.handed-off':
        return event.parentId === undefined
          ? { type: 'handoff', from: event.from, to: event.to }
          : undefined;
      case 'approval.requested':
        return withAgentId(event, {
          type: 'tool_approval_requested',
          name: event.tool,
          args: event.params,
          toolCallId: event.toolCallId,
          runId: run.runId,
          kind: event.kind,
          ...questionOf(event),
          ...agentPathOf(event),
          ...shownWith(event),
          ...defined({ earlierDenial: event.earlierDenial, rule: event.rule }),
        });
      case 'tool.started':
        return withAgentId(event, {
          type: 'tool_start',
          name: event.name,
          args: event.input,
          toolCallId: event.toolCallId,
        });
      case 'tool.completed':
        return toolEnd(event, event.result ?? event.context ?? null, 'succeeded');
      case 'tool.failed':
        return toolEnd(event, failureOutput(event), 'failed');
      case 'tool.denied':
        return toolEnd(event, failureOutput(event), event.status);
      case 'run.started':
      case 'run.resumed':
        return progressFrame(event.progress, run, 'running');
      case 'turn.started':
        return progressFrame(event.progress, run, 'running');
      case 'run.suspended':
        return progressFrame(event.progress, run, 'waiting');
      case 'agent.ended':
        return progressFrame(event.progress, run, statusOfEnd[event.reason]);
      case 'run.errored':
        return {
          type: 'error',
          error: event.error.message,
          code: event.error.code,
          retryable: event.error.retryable,
          ...event.error.guardrail,
        };
      case 'run.summarized':
        return { type: 'agent_summary', runId: run.runId, trust: event.trust };
      case 'run.ended':
        return {
          type: 'done',
          runId: run.runId,
          status: runtimeStatus[event.status],
          conversationId: run.conversationId,
          ...defined({ finishReason: event.finishReason }),
        };
      case 'run.created':
      case 'agent.started':
      case 'limit.reached':
      case 'context.compacted':
      case 'memory.recalled':
      case 'memory.stored':
      case 'message.added':
      case 'turn.completed':
      case 'reasoning.appended':
      case 'tool.called':
      case 'tool.progressed':
      case 'approval.expiring':
      case 'approval.decided':
      case 'approval.expired':
      case 'approval.closed':
        return undefined;
    }
  },
};

type SettledEvent = AgentEvent & EventOf<'tool.completed' | 'tool.failed' | 'tool.denied'>;

function toolEnd(event: SettledEvent, result: unknown, status: string): Frame {
  return withAgentId(event, {
    type: 'tool_end',
    name: event.name,
    result,
    status,
    toolCallId: event.toolCallId,
  });
}

type ProgressStatus = 'running' | 'waiting' | (typeof runtimeStatus)[keyof typeof runtimeStatus];

const statusOfEnd = {
  completed: 'succeeded',
  limit: 'succeeded',
  failed: 'failed',
  canceled: 'canceled',
} as const satisfies Record<AgentEnd, ProgressStatus>;

/** The events of sub-agents have no progress. */
function progressFrame(
  progress: Progress | undefined,
  run: RunHeader,
  status: ProgressStatus,
): Frame | undefined {
  if (progress === undefined) return undefined;
  return {
    type: 'agent_progress',
    runId: run.runId,
    status,
    partialOutput: progress.partialOutput,
    toolsInvoked: progress.toolsInvoked,
    runState: status,
    correlationId: run.correlationId,
  };
}
