/**
 * The events of an append as the payload of one row. Consecutive deltas that differ only in their text
 * become one entry whose `text` is a list. Decoding yields exactly the events that were encoded.
 */
import type { EventOf, RunEvent, StoredEvent } from '@relay/protocol';

type Delta = EventOf<'text.appended'> | EventOf<'reasoning.appended'>;

/** Consecutive deltas: the fields of the first, with the texts of all. */
type MergedDeltas = Omit<Delta, 'text'> & { text: string[] };

export function encodeEvents(events: readonly RunEvent[]): string {
  const entries: (RunEvent | MergedDeltas)[] = [];
  let first: Delta | undefined;
  let run: MergedDeltas | undefined;
  for (const event of events) {
    if (!isDelta(event)) {
      first = run = undefined;
      entries.push(event);
    } else if (first === undefined || !continues(first, event)) {
      first = event;
      run = undefined;
      entries.push(event);
    } else if (run === undefined) {
      run = { ...first, text: [first.text, event.text] };
      entries[entries.length - 1] = run;
    } else {
      run.text.push(event.text);
    }
  }
  return JSON.stringify(entries);
}

/** Throws if the payload is malformed. */
export function decodeEvents(payload: string, from: { seq: number; at: string }): StoredEvent[] {
  const events: StoredEvent[] = [];
  const { at } = from;
  let { seq } = from;
  for (const entry of JSON.parse(payload) as (RunEvent | MergedDeltas)[]) {
    if (isMerged(entry)) {
      for (const part of entry.text)
        events.push({ ...entry, text: part, seq: seq++, at } as StoredEvent);
    } else {
      events.push(Object.assign(entry, { seq: seq++, at }));
    }
  }
  return events;
}

function isDelta(event: RunEvent): event is Delta {
  return event.type === 'text.appended' || event.type === 'reasoning.appended';
}

function isMerged(entry: RunEvent | MergedDeltas): entry is MergedDeltas {
  return isDelta(entry as RunEvent) && Array.isArray((entry as MergedDeltas).text);
}

/** Whether two deltas differ in nothing but their text. */
function continues(first: Delta, next: Delta): boolean {
  return (
    first.type === next.type &&
    first.agentId === next.agentId &&
    first.parentId === next.parentId &&
    idOf(first) === idOf(next) &&
    isPlain(first) &&
    isPlain(next)
  );
}

function idOf(delta: Delta): string {
  return delta.type === 'text.appended' ? delta.textId : delta.reasoningId;
}

/** A delta with a field that this version does not know is not merged. */
function isPlain(delta: Delta): boolean {
  return Object.keys(delta).length === (delta.parentId === undefined ? 4 : 5);
}
