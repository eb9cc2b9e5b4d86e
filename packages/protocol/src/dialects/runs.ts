import type { EventOf, Stored } from '../events/catalogue.ts';
import { wireUsage } from '../schemas/runs.ts';
import type { Dialect } from './dialect.ts';
import { ofAgent, outputOfUnsuccessful, pathOf, questionOf } from './frames.ts';
import type { RunsFrame, ToolCallFrame } from './runs-frames.ts';

/** The words of `/v1/runs`. Of text, only the root agent's is shown. */
export const runs: Dialect = {
  name: 'runs',
  namesEvents: false,
  project(event): RunsFrame | undefined {
    switch (event.type) {
      case 'text.appended':
        return event.parentId === undefined ? { type: 'token', text: event.text } : undefined;
      case 'turn.discarded':
        return event.parentId === undefined ? { type: 'reset', after: event.after } : undefined;
      // Whoever reads of a call of its own function shall run it: that it may is known when it starts.
      case 'tool.called':
        return event.via === 'client' ? undefined : toolCall(event);
      case 'tool.started':
        return event.via === 'client' ? toolCall(event) : undefined;
      case 'tool.completed':
        return ofAgent(event, {
          type: 'tool_result',
          id: event.toolCallId,
          output: event.result === undefined ? (event.context ?? null) : event.result,
        });
      case 'tool.failed':
      case 'tool.denied':
        return ofAgent(event, {
          type: 'tool_result',
          id: event.toolCallId,
          output: outputOfUnsuccessful(event),
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
          ...(event.parentId === undefined ? {} : { parentId: event.parentId }),
          ...questionOf(event),
          ...pathOf(event),
        };
      case 'approval.expiring':
        return { type: 'approval_expiring', id: event.approvalId, expiresAt: event.expiresAt };
      case 'approval.decided':
        return {
          type: 'approval_resolved',
          id: event.approvalId,
          status: event.approved ? 'approved' : 'denied',
          ...(event.input === undefined ? {} : { executedParams: event.input }),
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
        };
      case 'run.ended':
        return {
          type: 'done',
          status: event.status,
          output: event.output,
          usage: wireUsage(event.usage),
          ...(event.limit === undefined ? {} : { limit: event.limit }),
        };
      case 'run.created':
      case 'run.started':
      case 'run.suspended':
      case 'run.resumed':
      case 'run.summarized':
      case 'agent.started':
      case 'agent.handed-off':
      case 'agent.switched':
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

function toolCall(event: Stored<EventOf<'tool.called'> | EventOf<'tool.started'>>): ToolCallFrame {
  const { toolCallId: id, name, input } = event;
  const resultBy = event.type === 'tool.started' ? { resultBy: event.resultBy } : {};
  return ofAgent(event, { type: 'tool_call', id, name, input, ...resultBy });
}
