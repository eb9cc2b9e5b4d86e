import { emptyTranscript, foldTranscript } from '@relay/core';
import type { Message, StoredEvent } from '@relay/protocol';

/** What the root agent's model would read after these events. */
export function transcriptOf(events: readonly StoredEvent[]): readonly Message[] {
  const own = events.filter((event) => ownerOf(event) === undefined);
  return own.reduce(foldTranscript, emptyTranscript).messages;
}

/** What each sub-agent's model would read, by the task that it was given. */
export function subTranscriptsOf(
  events: readonly StoredEvent[],
): Readonly<Record<string, readonly Message[]>> {
  const transcripts: Record<string, readonly Message[]> = {};
  for (const started of events) {
    if (started.type !== 'agent.started' || started.spawned === undefined) continue;
    const own = events.filter((event) => ownerOf(event) === started.agentId);
    transcripts[started.spawned.task] = own.reduce(foldTranscript, emptyTranscript).messages;
  }
  return transcripts;
}

function ownerOf(event: StoredEvent): string | undefined {
  return 'parentId' in event && event.parentId !== undefined ? event.agentId : undefined;
}
