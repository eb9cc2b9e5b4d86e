/**
 * The events in a row of the journal. Decoding yields exactly the events that were added, with their
 * fields in the same order. A row does not repeat what it can refer to:
 *
 * - Consecutive deltas are one entry: their whole text, and the length of each as a digit to the base
 *   36. A longer delta is an entry of its own.
 * - The first event has the time of the row. A number between two entries is the time from the one to
 *   the other, in milliseconds. Between two deltas of one entry, it is in capital letters, to the base 26.
 * - The output of a run is the text of its last turn. The events of its end have `{from}` in place of
 *   that text: the `seq` of the `turn.started`.
 */
import { partialOutputOf } from '@relay/core';
import type { EventOf, RunEvent, StoredEvent } from '@relay/protocol';

type Delta = EventOf<'text.appended'> | EventOf<'reasoning.appended'>;

/** An event, or several deltas, as it is stored. */
interface Entry {
  readonly type: RunEvent['type'];
  readonly [field: string]: unknown;
}

interface DeltasEntry extends Entry {
  text: string;
  lengths: string;
}

/** Several events that were appended at one time. */
export interface EventBatch {
  readonly at: number;
  readonly events: readonly RunEvent[];
  /** Where the turn started whose text is the output, if these events end the run. */
  readonly answerSeq?: number | null | undefined;
}

/** Never changed: an append that is not stored leaves the row as it was. */
export interface RowContent {
  /** The times of the first and of the last event. */
  readonly at: number;
  readonly lastAt: number;
  readonly count: number;
  readonly entries: readonly (Entry | number)[];
}

/** The same row with these events at its end, or a new one. */
export function addEvents(row: RowContent | undefined, batch: EventBatch): RowContent {
  const { at, events, answerSeq = null } = batch;
  const entries = [...(row?.entries ?? [])];
  let open = copyOfDeltas(entries.at(-1));
  if (open !== undefined) entries[entries.length - 1] = open;
  let elapsed = at - (row?.lastAt ?? at);
  for (const event of events) {
    const isMergeable = isPlainDelta(event);
    if (isMergeable && open !== undefined && elapsed >= 0 && continues(open, event)) {
      open.text += event.text;
      open.lengths += toLetters(elapsed) + event.text.length.toString(36);
    } else {
      if (elapsed !== 0) entries.push(elapsed);
      open = isMergeable ? { ...event, lengths: event.text.length.toString(36) } : undefined;
      entries.push(open ?? withoutText(event, answerSeq));
    }
    elapsed = 0;
  }
  return { at: row?.at ?? at, lastAt: at, count: (row?.count ?? 0) + events.length, entries };
}

export function encodeRow({ entries }: RowContent): string {
  return JSON.stringify(entries);
}

/** Throws if the row is malformed. The output may be missing (`missingText`). */
export function decodeRow(json: string, first: { seq: number; at: number }): StoredEvent[] {
  const events: StoredEvent[] = [];
  let { seq, at: time } = first;
  let at = new Date(time).toISOString();
  const add = (event: object) => events.push({ ...event, seq: seq++, at } as StoredEvent);
  const advance = (elapsed: number) => {
    time += elapsed;
    at = new Date(time).toISOString();
  };
  for (const entry of JSON.parse(json) as (Entry | number)[]) {
    if (typeof entry === 'number') {
      advance(entry);
    } else if (isDeltas(entry)) {
      const { lengths, ...event } = entry;
      let start = 0;
      let elapsed = 0;
      for (const digit of lengths) {
        const letter = valueOfLetter(digit);
        if (letter !== undefined) {
          elapsed = elapsed * lettersInAlphabet + letter;
          continue;
        }
        if (elapsed > 0) advance(elapsed);
        elapsed = 0;
        const end = start + Number.parseInt(digit, 36);
        add({ ...event, text: entry.text.slice(start, end) });
        start = end;
      }
    } else {
      add(entry);
    }
  }
  return events;
}

/** The text of the turn that started at `seq`, from rows in order, of which the first has this event. */
export class TurnText {
  readonly #seq: number;
  /** The first event that was not added. */
  #next: number;
  #start: Entry | undefined;
  #text = '';
  #hasEnded = false;

  constructor(seq: number) {
    this.#seq = seq;
    this.#next = seq;
  }

  get next(): number {
    return this.#next;
  }

  get hasStarted(): boolean {
    return this.#start !== undefined;
  }

  /** No later row has more of it. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  get text(): string {
    return this.#text;
  }

  add(json: string, firstSeq: number): void {
    let seq = firstSeq;
    for (const entry of JSON.parse(json) as (Entry | number)[]) {
      if (typeof entry === 'number') continue;
      if (seq === this.#seq) this.#start = entry;
      if (entry.type === 'text.appended' && this.#hasSame(entry, 'textId')) {
        this.#text += String(entry['text']);
      }
      if (entry.type === 'turn.completed' && this.#hasSame(entry, 'agentId')) this.#hasEnded = true;
      seq += isDeltas(entry) ? entry.lengths.replace(/[A-Z]+/g, '').length : 1;
    }
    this.#next = seq;
  }

  #hasSame(entry: Entry, name: 'agentId' | 'textId'): boolean {
    return this.#start !== undefined && this.#start[name] === entry[name];
  }
}

const maxMergedLength = 35;

function isDelta(event: { readonly type: RunEvent['type'] }): event is Delta {
  return event.type === 'text.appended' || event.type === 'reasoning.appended';
}

function isDeltas(entry: Entry): entry is DeltasEntry {
  return isDelta(entry) && 'lengths' in entry;
}

function copyOfDeltas(entry: Entry | number | undefined): DeltasEntry | undefined {
  const isOpen = typeof entry === 'object' && isDeltas(entry);
  return isOpen ? { ...entry } : undefined;
}

/** A long delta, or one with a field that this version does not know, is not merged. */
function isPlainDelta(event: RunEvent): event is Delta {
  if (!isDelta(event)) return false;
  const fields = event.parentId === undefined ? 4 : 5;
  return event.text.length <= maxMergedLength && Object.keys(event).length === fields;
}

/** Whether the delta differs from those before it in nothing but its text. */
function continues(entry: DeltasEntry, delta: Delta): boolean {
  return (
    entry.type === delta.type &&
    entry['agentId'] === delta.agentId &&
    entry['parentId'] === delta.parentId &&
    (delta.type === 'text.appended'
      ? entry['textId'] === delta.textId
      : entry['reasoningId'] === delta.reasoningId)
  );
}

const lettersInAlphabet = 26;
const codeOfA = 65;

/** Nothing for 0. */
function toLetters(value: number): string {
  let letters = '';
  for (let rest = value; rest > 0; rest = Math.floor(rest / lettersInAlphabet)) {
    letters = String.fromCharCode(codeOfA + (rest % lettersInAlphabet)) + letters;
  }
  return letters;
}

function valueOfLetter(char: string): number | undefined {
  return char >= 'A' && char <= 'Z' ? char.charCodeAt(0) - codeOfA : undefined;
}

/** In place of a text: the `seq` of the turn that has it. */
interface TextRef {
  readonly from: number;
}

function withoutText(event: RunEvent, from: number | null): Entry {
  if (from === null) return event;
  if (event.type === 'run.ended' && event.output !== '') return { ...event, output: { from } };
  if (event.type !== 'agent.ended' || !event.progress?.partialOutput) return event;
  return { ...event, progress: { ...event.progress, partialOutput: { from } } };
}

/** The turn whose text the last events refer to; undefined if they have their text. */
export function missingText(events: readonly StoredEvent[]): number | undefined {
  for (let at = events.length - 1; at >= 0; at -= 1) {
    const event = events[at];
    // A run ends after the last delta.
    if (event === undefined || isDelta(event)) return undefined;
    const text: unknown = event.type === 'run.ended' ? event.output : progressIn(event);
    if (typeof text === 'object') return (text as TextRef).from;
  }
  return undefined;
}

function progressIn(event: StoredEvent): string | undefined {
  return event.type === 'agent.ended' ? event.progress?.partialOutput : undefined;
}

/** The same events with the text that they refer to. */
export function withText(events: readonly StoredEvent[], text: string): StoredEvent[] {
  const isMissing = (found: unknown) => typeof found === 'object';
  return events.map((event) => {
    if (event.type === 'run.ended' && isMissing(event.output)) return { ...event, output: text };
    if (event.type !== 'agent.ended' || event.progress === undefined) return event;
    if (!isMissing(event.progress.partialOutput)) return event;
    return { ...event, progress: { ...event.progress, partialOutput: partialOutputOf(text) } };
  });
}
