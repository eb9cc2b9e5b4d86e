/**
 * The events of an append as the payload of one row. Decoding yields exactly the events that were
 * encoded, with their fields in the same order. A payload does not repeat what it can refer to:
 *
 * - Consecutive deltas are one entry: their whole text, and the length of each as a digit to the base
 *   36. A longer delta is an entry of its own.
 * - A field that is left out is as in the entry before that has it, or as usual (`usual`). An entry
 *   with `all` leaves out nothing.
 * - The output of a run is the text of its last turn. The events of its end have `{from}` in place of
 *   that text: the `seq` of the `turn.started`.
 * - A summary has the fields in which it differs from that of a run without tools.
 */
import { partialOutputOf } from '@relay/core';
import { type EventOf, type RunEvent, type StoredEvent, type Trust } from '@relay/protocol';

type Delta = EventOf<'text.appended'> | EventOf<'reasoning.appended'>;

/** An event, or several deltas, as it is stored. */
interface Entry {
  readonly type: RunEvent['type'];
  readonly [field: string]: unknown;
}

/** `answerSeq`: where the turn started whose text is the output, if these events end the run. */
export function encodeEvents(
  events: readonly RunEvent[],
  answerSeq: number | null | undefined = null,
): string {
  const entries: Entry[] = [];
  const last = { ...usual };
  for (let at = 0; at < events.length;) {
    const event = events[at];
    if (event === undefined) break;
    const end = isDelta(event) ? endOfDeltas(events, at, event) : at + 1;
    const entry = withoutShared(withoutText(event, answerSeq), last);
    entries.push(end === at + 1 ? entry : merged(entry, events.slice(at, end) as Delta[]));
    at = end;
  }
  return JSON.stringify(entries);
}

/** Throws if the payload is malformed. The output may be missing (`missingText`). */
export function decodeEvents(payload: string, from: { seq: number; at: string }): StoredEvent[] {
  const events: StoredEvent[] = [];
  const { at } = from;
  let { seq } = from;
  const add = (event: object) => events.push({ ...event, seq: seq++, at } as StoredEvent);
  for (const { lengths, ...event } of entriesOf(payload)) {
    if (typeof lengths !== 'string') {
      add(event);
      continue;
    }
    const whole = String(event['text']);
    let start = 0;
    for (const digit of lengths) {
      const end = start + Number.parseInt(digit, 36);
      add({ ...event, text: whole.slice(start, end) });
      start = end;
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

  add(payload: string, firstSeq: number): void {
    let seq = firstSeq;
    for (const entry of entriesOf(payload)) {
      if (seq === this.#seq) this.#start = entry;
      if (entry.type === 'text.appended' && this.#hasSame(entry, 'textId')) {
        this.#text += String(entry['text']);
      }
      if (entry.type === 'turn.completed' && this.#hasSame(entry, 'agentId')) this.#hasEnded = true;
      seq += typeof entry['lengths'] === 'string' ? entry['lengths'].length : 1;
    }
    this.#next = seq;
  }

  #hasSame(entry: Entry, name: 'agentId' | 'textId'): boolean {
    return this.#start !== undefined && this.#start[name] === entry[name];
  }
}

function entriesOf(payload: string): Entry[] {
  const last = { ...usual };
  return (JSON.parse(payload) as Entry[]).map((entry) => {
    const event = withShared(entry, last);
    return event.type === 'run.summarized'
      ? { ...event, trust: { ...trustWithoutTools, ...(event['trust'] as Trust) } }
      : event;
  });
}

const maxMergedLength = 35;

function isDelta(event: RunEvent): event is Delta {
  return event.type === 'text.appended' || event.type === 'reasoning.appended';
}

/** The end of the deltas that are one entry with the one at `from`. */
function endOfDeltas(events: readonly RunEvent[], from: number, first: Delta): number {
  let end = from + 1;
  if (!isPlain(first)) return end;
  for (; end < events.length; end += 1) {
    const event = events[end];
    if (event === undefined || !isDelta(event) || !continues(first, event)) break;
  }
  return end;
}

/** Whether two deltas differ in nothing but their text. */
function continues(first: Delta, next: Delta): boolean {
  return (
    first.type === next.type &&
    first.agentId === next.agentId &&
    first.parentId === next.parentId &&
    idOf(first) === idOf(next) &&
    isPlain(next)
  );
}

function idOf(delta: Delta): string {
  return delta.type === 'text.appended' ? delta.textId : delta.reasoningId;
}

/** A long delta, or one with a field that this version does not know, is not merged. */
function isPlain(delta: Delta): boolean {
  const fields = delta.parentId === undefined ? 4 : 5;
  return delta.text.length <= maxMergedLength && Object.keys(delta).length === fields;
}

function merged(entry: Entry, deltas: readonly Delta[]): Entry {
  const texts = deltas.map(({ text }) => text);
  return {
    ...entry,
    text: texts.join(''),
    lengths: texts.map(({ length }) => length.toString(36)).join(''),
  };
}

type Fields = Record<string, unknown>;

const ofAgent = ['agentId', 'parentId'];

/** What an entry leaves out if the last entry with such a field has the same, in the event's order. */
const shared: Partial<Record<RunEvent['type'], readonly string[]>> = {
  'run.started': ['progress'],
  'turn.started': [...ofAgent, 'turn', 'textId', 'reasoningId'],
  'text.appended': [...ofAgent, 'textId'],
  'reasoning.appended': [...ofAgent, 'reasoningId'],
  'turn.completed': [...ofAgent, 'turn', 'finishReason', 'usage'],
  'agent.ended': [...ofAgent, 'reason', 'iterations', 'usage'],
  'run.ended': ['status', 'output', 'usage', 'agent', 'error', 'limit', 'finishReason'],
};

function sharedBy({ type }: Entry): readonly string[] {
  return shared[type] ?? (type.startsWith('run.') ? [] : ofAgent);
}

/** Before the first entry. Part of the format: stored rows rely on it. */
const usual: Readonly<Fields> = { progress: { partialOutput: '', toolsInvoked: [] } };

/** `last`: the fields of the entries so far, to which it adds those of this one. */
function withoutShared(event: Entry, last: Fields): Entry {
  const names = Object.keys(event);
  // Decoding puts them after the type, in this order.
  const restored = sharedBy(event).filter((name) => name in event || last[name] !== undefined);
  if (!restored.every((name, at) => name === names[at + 1])) {
    remember(event, last);
    return { ...event, all: true };
  }
  const entry: Fields & { type: Entry['type'] } = { type: event.type };
  for (const [at, name] of names.entries()) {
    const isShared = at > 0 && at <= restored.length;
    if (!isShared || !isSame(event[name], last[name])) entry[name] = event[name];
  }
  remember(event, last);
  return entry;
}

function withShared({ all, ...entry }: Entry, last: Fields): Entry {
  const { type, ...fields } = entry;
  const restored: Fields = {};
  for (const name of sharedBy(entry)) {
    const value = name in fields ? fields[name] : last[name];
    if (value !== undefined) restored[name] = value;
  }
  const event = all === true ? entry : { type, ...restored, ...fields };
  remember(event, last);
  return event;
}

function remember(event: Entry, last: Fields): void {
  for (const name of sharedBy(event)) last[name] = event[name];
}

/** Whether two values are the same JSON. */
function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  return Object.keys(a).length === Object.keys(b).length && JSON.stringify(a) === JSON.stringify(b);
}

/** In place of a text: the `seq` of the turn that has it. */
interface TextRef {
  readonly from: number;
}

function withoutText(event: RunEvent, from: number | null): Entry {
  switch (event.type) {
    case 'run.ended':
      return from === null || event.output === '' ? event : { ...event, output: { from } };
    case 'agent.ended': {
      const { progress } = event;
      return from === null || progress === undefined || progress.partialOutput === ''
        ? event
        : { ...event, progress: { ...progress, partialOutput: { from } } };
    }
    case 'run.summarized':
      return { ...event, trust: toolsIn(event.trust) };
    default:
      return event;
  }
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

const trustWithoutTools: Omit<Trust, 'durationMs'> = {
  toolsInvoked: [],
  toolFailures: 0,
  evidenceCitations: [],
  // Of no results.
  evidenceHash: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  confidence: null,
  missingEvidence: [],
  verificationSteps: [],
  retryAttempts: 0,
};

function toolsIn(trust: Trust): Partial<Trust> {
  const usual = Object.entries(trustWithoutTools).map(([name, value]) => [
    name,
    JSON.stringify(value),
  ]);
  const same = new Map(usual as [string, string][]);
  return Object.fromEntries(
    Object.entries(trust).filter(([name, value]) => same.get(name) !== JSON.stringify(value)),
  );
}
