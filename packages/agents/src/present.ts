/** Converts stored events to the events of the library: those of `/chat`, and some of its own. */
import { suggestedRule, type Tool } from '@relay/core';
import { defined, dialects, displayOf, type EventOf, type StoredEvent } from '@relay/protocol';
import type { AgentEvent, RelayEvent, RelayResponse } from './events.ts';

export interface PresentOptions {
  readonly runId: string;
  findTool(name: string): Tool | undefined;
  respond(approvalId: string, response: RelayResponse): void;
}

export function presentEvent(event: StoredEvent, options: PresentOptions): AgentEvent | undefined {
  const { runId } = options;
  switch (event.type) {
    case 'approval.requested':
      return relayEvent(event, options);
    case 'agent.handed-off':
      return { type: 'handoff', ...agentFields(event, runId), from: event.from, to: event.to };
    case 'limit.reached':
      return { type: 'limit', ...agentFields(event, runId), limit: event.limit };
    default: {
      const header = { runId, conversationId: runId, correlationId: runId };
      return dialects.chat.project(event, header) as AgentEvent | undefined;
    }
  }
}

function relayEvent(event: EventOf<'approval.requested'>, options: PresentOptions): RelayEvent {
  // A copy: a program that changes it does not change what runs.
  const params = structuredClone(event.params ?? {}) as Record<string, unknown>;
  return {
    type: 'relay',
    kind: event.kind,
    ...agentFields(event, options.runId),
    id: event.approvalId,
    toolCallId: event.toolCallId,
    tool: event.tool,
    params,
    agentPath: event.agentPath,
    display: displayOf(event),
    ...defined({
      resolvedPaths: event.resolvedPaths,
      prompt: event.question?.prompt,
      schema: event.question?.schema,
      earlierDenial: event.earlierDenial,
      rule: event.rule,
      // Where each call needs a person, "always" is not offered.
      suggestedRule:
        event.rule === undefined ? suggestedRule(options.findTool(event.tool), params) : undefined,
    }),
    respond: (response) => options.respond(event.approvalId, response),
  };
}

function agentFields(event: { agentId: string; parentId?: string | undefined }, runId: string) {
  return { runId, agentId: event.agentId, ...defined({ parentId: event.parentId }) };
}
