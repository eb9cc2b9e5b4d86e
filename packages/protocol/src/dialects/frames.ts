import type { EventOf, StoredEvent } from '../events/catalogue.ts';
import type { Frame } from './dialect.ts';

export type OfAgent = Extract<StoredEvent, { agentId: string }>;

/** A sub-agent's calls and approvals are told apart from the root agent's by their `agentId`. */
export function ofAgent<const Of extends Frame>(
  event: OfAgent,
  frame: Of,
): Of & { agentId?: string } {
  return event.parentId === undefined ? frame : { ...frame, agentId: event.agentId };
}

/** Who asks, from the first agent down, where it is not the first agent itself. */
export function pathOf(event: EventOf<'approval.requested'>): { agentPath?: readonly string[] } {
  return event.parentId === undefined ? {} : { agentPath: event.agentPath };
}

/** What a tool asks, and what shape the answer has. */
export function questionOf({ question }: EventOf<'approval.requested'>) {
  return question === undefined ? {} : { prompt: question.prompt, schema: question.schema };
}

type Unsuccessful = EventOf<'tool.failed'> | EventOf<'tool.denied'>;

/** What every dialect shows, and the model reads, of a call that brought no result. */
export function outputOfUnsuccessful(event: Unsuccessful): Record<string, unknown> {
  if (event.type === 'tool.failed') {
    return { status: 'error', error: event.error, code: event.code };
  }
  return event.reason === undefined
    ? { status: event.status }
    : { status: event.status, reason: event.reason };
}
