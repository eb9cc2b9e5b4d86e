import type { RunHead, RunListing, RunRecord } from '@relay/core';
import { type EventOf, type Message, type StoredEvent, wireUsage } from '@relay/protocol';

/** A run as the API shows it. */
export function presentRun(run: RunRecord, spec: StoredEvent | undefined) {
  return {
    ...presentHead(run, spec?.type === 'run.created' ? spec : null),
    ...presentTimes(run),
    ...(run.checkpoint === null ? {} : { checkpoint: JSON.parse(run.checkpoint) as unknown }),
  };
}

/** The same in a list, where a long input and the checkpoint are left out. */
export function presentListed(run: RunListing) {
  return { ...presentHead(run, run.opening), ...presentTimes(run) };
}

function presentHead(run: RunHead, opening: EventOf<'run.created'> | null) {
  const output = outputOf(run);
  return {
    id: run.id,
    status: run.status,
    model: run.model,
    agent: run.agent,
    conversationId: run.conversationId,
    ...(run.parentRunId === null ? {} : { parentRunId: run.parentRunId }),
    ...(run.workflowId === null ? {} : { workflowId: run.workflowId }),
    ...(opening?.forkedFrom === undefined ? {} : { forkedFrom: opening.forkedFrom }),
    input: opening === null ? null : inputOf(opening.messages),
    ...(output === null ? {} : { output }),
    usage: wireUsage(run.usage),
    ...(run.usage.costUsd === undefined ? {} : { costUsd: run.usage.costUsd }),
    labels: run.labels,
    lastSeq: run.lastSeq,
    createdAt: iso(run.createdAt),
  };
}

function presentTimes(run: Pick<RunListing, 'error' | 'startedAt' | 'endedAt'>) {
  return {
    ...(run.error === null ? {} : { error: run.error }),
    ...(run.startedAt === null ? {} : { startedAt: iso(run.startedAt) }),
    ...(run.endedAt === null ? {} : { endedAt: iso(run.endedAt) }),
  };
}

/** As it was given: a text, or messages. */
function inputOf(messages: readonly Message[]): unknown {
  const [first] = messages;
  return messages.length === 1 && first?.role === 'user' && typeof first.content === 'string'
    ? first.content
    : messages;
}

/** Unknown where those very bytes are damaged: one such run must not spoil a whole list. */
function outputOf({ outputJson }: RunHead): string | null {
  try {
    const { output } = JSON.parse(outputJson ?? '{}') as { output?: unknown };
    return typeof output === 'string' ? output : null;
  } catch {
    return null;
  }
}

/** Times on the wire. */
export function iso(time: number): string {
  return new Date(time).toISOString();
}
