import { emptyTranscript, foldTranscript } from '@relay/core';
import type { Message, StoredEvent } from '@relay/protocol';

/** What the model would read after these events. */
export function transcriptOf(events: readonly StoredEvent[]): readonly Message[] {
  return events.reduce(foldTranscript, emptyTranscript).messages;
}
