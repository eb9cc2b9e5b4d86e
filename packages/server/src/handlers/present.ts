import type { RunRecord } from '@relay/core';
import { type Message, type StoredEvent } from '@relay/protocol';

/** A run as the API shows it. */
export function presentRun(run: RunRecord, spec: StoredEvent | undefined) {
  const output = outputOf(run);
  return {
    id: run.id,
    status: run.status,
    model: run.model,
    agent: run.agent,
    conversationId: run.conversationId,
    ...(run.parentRunId === null ? {} : { parentRunId: run.parentRunId }),
    ...(run.workflowId === null ? {} : { workflowId: run.workflowId }),
    input: spec?.type === 'run.created' ? inputOf(spec.messages) : null,
    ...(output === null ? {} : { output }),
    usage: { input_tokens: run.usage.inputTokens, output_tokens: run.usage.outputTokens },
    ...(run.error === null ? {} : { error: run.error }),
    ...(run.checkpoint === null ? {} : { checkpoint: JSON.parse(run.checkpoint) as unknown }),
    labels: run.labels,
    lastSeq: run.lastSeq,
    createdAt: iso(run.createdAt),
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

function outputOf(run: RunRecord): string | null {
  if (run.outputJson === null) return null;
  return (JSON.parse(run.outputJson) as { output: string | null }).output;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
