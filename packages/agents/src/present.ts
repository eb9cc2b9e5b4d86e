/** From the journal to what a program sees: the words of `/chat`, and what only a program can use. */
import { suggestedRule, type Tool } from '@relay/core';
import { dialects, type EventOf, type StoredEvent } from '@relay/protocol';
import type { AgentEvent, RelayEvent, RelayResponse } from './events.ts';

export interface Viewer {
  readonly runId: string;
  findTool(name: string): Tool | undefined;
  respond(approvalId: string, response: RelayResponse): void;
}

export function presentEvent(event: StoredEvent, viewer: Viewer): AgentEvent | undefined {
  const { runId } = viewer;
  switch (event.type) {
    case 'approval.requested':
      return relayEvent(event, viewer);
    case 'agent.handed-off':
      return { type: 'handoff', ...ofAgent(event, runId), from: event.from, to: event.to };
    case 'limit.reached':
      return { type: 'limit', ...ofAgent(event, runId), limit: event.limit };
    default: {
      const header = { runId, conversationId: runId, correlationId: runId };
      return dialects.chat.project(event, header) as AgentEvent | undefined;
    }
  }
}

function relayEvent(event: EventOf<'approval.requested'>, viewer: Viewer): RelayEvent {
  // A copy: what is run is what was shown, whatever a program does to what it gets.
  const params = structuredClone(event.params ?? {}) as Record<string, unknown>;
  const rule = suggestedRule(viewer.findTool(event.tool), params);
  return {
    type: 'relay',
    kind: event.kind,
    ...ofAgent(event, viewer.runId),
    id: event.approvalId,
    toolCallId: event.toolCallId,
    tool: event.tool,
    params,
    ...(event.question === undefined
      ? {}
      : { prompt: event.question.prompt, schema: event.question.schema }),
    agentPath: event.agentPath,
    ...(rule === undefined ? {} : { suggestedRule: rule }),
    respond: (response) => viewer.respond(event.approvalId, response),
  };
}

function ofAgent(event: { agentId: string; parentId?: string | undefined }, runId: string) {
  const { agentId, parentId } = event;
  return parentId === undefined ? { runId, agentId } : { runId, agentId, parentId };
}
