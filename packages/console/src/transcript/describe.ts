/** What an event says, in words. */
import type { StoredEvent } from '@relay/protocol/wire';
import { formatCost, formatCount, formatDuration } from '../ui/values.tsx';

/** One line, for lists. The text of models and tools in it is not escaped yet. */
export function summaryOf(event: StoredEvent): string {
  switch (event.type) {
    case 'run.created':
      return `Created for ${event.agent} with ${event.model}`;
    case 'run.started':
      return 'Started';
    case 'run.suspended':
      return event.approvalIds.length === 0
        ? 'Waits'
        : `Waits for ${event.approvalIds.length} ${event.approvalIds.length === 1 ? 'approval' : 'approvals'}`;
    case 'run.resumed':
      return 'Continues';
    case 'run.errored':
      return `Error ${event.error.code}: ${event.error.message}`;
    case 'run.summarized':
      return `Tools used: ${event.trust.toolsInvoked.length}, failures: ${event.trust.toolFailures}, retries: ${event.trust.retryAttempts}`;
    case 'run.ended':
      return `Ended: ${event.status}`;
    case 'agent.started':
      return event.spawned === undefined
        ? `Agent ${event.name} started`
        : `Sub-agent ${event.name} started: ${event.spawned.task}`;
    case 'agent.handed-off':
      return `Handed off from ${event.from} to ${event.to}`;
    case 'agent.switched':
      return `${event.name} continues with ${event.model}`;
    case 'agent.ended':
      return `Agent ended: ${event.reason}, ${event.iterations} turns`;
    case 'limit.reached':
      return `Limit reached: ${event.limit}`;
    case 'context.compacted':
      return `${event.ofHistory + event.ofRun} messages were summarized for the model`;
    case 'memory.recalled':
      return `${event.memories.length} memories recalled from ${event.namespace}`;
    case 'memory.stored':
      return `A memory was stored in ${event.namespace}`;
    case 'message.added':
      return `Message: ${shortContent(event.content)}`;
    case 'turn.started':
      return `Turn ${event.turn} started`;
    case 'turn.completed':
      return `Turn ${event.turn} completed: ${event.finishReason}, ${usageText(event.usage)}`;
    case 'turn.discarded':
      return event.retry === undefined
        ? `Turn ${event.turn} discarded: ${discardReason(event.reason)}`
        : `The model failed (${event.code ?? event.reason}), and is asked again after ${formatDuration(event.retry.delayMs)}`;
    case 'text.appended':
    case 'reasoning.appended':
      return event.text;
    case 'tool.called':
      return `${event.name} ${JSON.stringify(event.input)}`;
    case 'tool.started':
      return `${event.name} started${event.approvalId === undefined ? '' : ' after an approval'}`;
    case 'tool.progressed':
      return `${event.name}: ${event.content}`;
    case 'tool.completed':
      return `${event.name} completed${event.durationMs === undefined ? '' : ` in ${formatDuration(event.durationMs)}`}`;
    case 'tool.failed':
      return `${event.name} failed: ${event.error}`;
    case 'tool.denied':
      return `${event.name} ${event.status}${event.reason === undefined ? '' : `: ${event.reason}`}`;
    case 'approval.requested':
      return `Approval of ${event.tool} requested (${event.kind})`;
    case 'approval.expiring':
      return 'The approval expires soon';
    case 'approval.decided':
      return `${event.approved ? 'Approved' : 'Denied'} by ${event.by.owner ?? event.by.name}${event.reason === undefined ? '' : `: ${event.reason}`}`;
    case 'approval.expired':
      return 'The approval expired';
    case 'approval.closed':
      return `The approval was closed: ${event.reason}`;
  }
}

type DiscardReason = Extract<StoredEvent, { type: 'turn.discarded' }>['reason'];

export function discardReason(reason: DiscardReason): string {
  switch (reason) {
    case 'crash':
      return 'the server stopped while it was written, and the turn began again';
    case 'retry':
      return 'the model failed, and was asked again';
    case 'limit':
      return 'a limit was reached';
    case 'guardrail':
      return 'a guardrail refused it';
    case 'schema':
      return 'it did not match the schema of the answer';
    case 'message':
      return 'a message interrupted it';
  }
}

interface Tokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costUsd?: number | undefined;
}

export function usageText({ inputTokens, outputTokens, costUsd }: Tokens): string {
  const tokens = `${formatCount(inputTokens)} tokens in, ${formatCount(outputTokens)} out`;
  return costUsd === undefined ? tokens : `${tokens}, ${formatCost(costUsd)}`;
}

type Content = Extract<StoredEvent, { type: 'message.added' }>['content'];

/** The text of a message; images and files by their kind. */
export function shortContent(content: Content): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => {
      if (part.type === 'text') return part.text;
      return part.type === 'file' ? `[file ${part.filename ?? ''}]` : '[image]';
    })
    .join(' ');
}
