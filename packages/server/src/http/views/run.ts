import type { RunListing, RunRecord } from '@relay/core';
import {
  type CheckpointEnvelope,
  type EventOf,
  type Message,
  type StoredEvent,
  wireUsage,
} from '@relay/protocol';
import { iso, isoOrUndefined } from './pagination.ts';

/** A run as the API shows it. `end` has the output of a run with an `answerSeq`. */
export function presentRun(run: RunRecord, spec: StoredEvent | undefined, end?: StoredEvent) {
  const answer = end?.type === 'run.ended' ? end.output : null;
  return {
    ...present({ ...run, answer }, spec?.type === 'run.created' ? spec : null),
    checkpoint:
      run.checkpoint === null ? undefined : (JSON.parse(run.checkpoint) as CheckpointEnvelope),
  };
}

/** The same in a list, without the checkpoint. */
export function presentListed(run: RunListing) {
  const { error } = run;
  return {
    ...present(run, run.opening),
    inputTruncated: run.isOpeningOmitted ? (true as const) : undefined,
    outputTruncated: run.isOutputOmitted ? (true as const) : undefined,
    error: error === null ? undefined : { ...error, message: shortened(error.message) },
  };
}

const maxErrorChars = 2_000;

function shortened(message: string): string {
  return message.length <= maxErrorChars ? message : `${message.slice(0, maxErrorChars)}…`;
}

type Presented = Omit<RunListing, 'opening' | 'isOpeningOmitted' | 'isOutputOmitted'>;

function present(run: Presented, opening: EventOf<'run.created'> | null) {
  return {
    id: run.id,
    status: run.status,
    model: run.model,
    agent: run.agent,
    conversationId: run.conversationId,
    owner: run.owner,
    parentRunId: run.parentRunId ?? undefined,
    workflowId: run.workflowId ?? undefined,
    forkedFrom: opening?.forkedFrom,
    input: opening === null ? null : inputOf(opening.messages),
    output: outputOf(run) ?? run.answer ?? undefined,
    finishReason: run.finishReason ?? undefined,
    usage: wireUsage(run.usage),
    costUsd: run.usage.costUsd,
    labels: run.labels,
    lastSeq: run.lastSeq,
    createdAt: iso(run.createdAt),
    error: run.error ?? undefined,
    startedAt: isoOrUndefined(run.startedAt),
    endedAt: isoOrUndefined(run.endedAt),
  };
}

/** As in the request: a text, or messages. */
function inputOf(messages: readonly Message[]): string | readonly Message[] {
  const [first] = messages;
  return messages.length === 1 && first?.role === 'user' && typeof first.content === 'string'
    ? first.content
    : messages;
}

/** Undefined if the stored output is damaged: one such run must not fail a whole list. */
function outputOf({ outputJson }: Pick<RunListing, 'outputJson'>): string | undefined {
  try {
    const { output } = JSON.parse(outputJson ?? '{}') as { output?: unknown };
    return typeof output === 'string' ? output : undefined;
  } catch {
    return undefined;
  }
}
