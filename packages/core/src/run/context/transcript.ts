/**
 * The transcript: what the model reads, as a pure fold of journals (E4).
 *
 * A run's part begins with its input. A completed turn adds the assistant's message; once all calls
 * of the turn are settled, their results follow in the order of the calls, whatever order they
 * finished in. A discarded turn leaves nothing. A compaction puts a summary in the place of the
 * oldest messages.
 *
 * It is folded from one agent's events: those of the first agent and of the run itself, or those of
 * one sub-agent.
 */
import {
  type EventOf,
  type Message,
  type MessageToolCall,
  outputOfUnsuccessful,
  type ProviderData,
  type RunEvent,
} from '@relay/protocol';

import { recalledMessage } from './recalled.ts';

interface OpenTurn {
  readonly text: string;
  readonly calls: readonly MessageToolCall[];
  readonly results: Readonly<Record<string, string>>;
  /** Arguments that a person has put in the place of the model's, by call. */
  readonly edited: Readonly<Record<string, unknown>>;
  readonly completed: boolean;
  readonly providerData?: ProviderData | undefined;
}

export interface Transcript {
  readonly messages: readonly Message[];
  readonly open: OpenTurn | null;
  /** Where the messages of the present run begin. */
  readonly runStart: number;
  /** How often it was compacted. */
  readonly generation: number;
  /** A compaction of the present run did not apply, so that none which it made later can. */
  readonly adrift: boolean;
  /** Ids of tool calls from before a compaction of the present run. */
  readonly spentIds: readonly string[];
  /** What was recalled for the present run alone: it is no part of the conversation. */
  readonly recalled: Message | null;
}

export const emptyTranscript: Transcript = {
  messages: [],
  open: null,
  runStart: 0,
  generation: 0,
  adrift: false,
  spentIds: [],
  recalled: null,
};

const newTurn: OpenTurn = { text: '', calls: [], results: {}, edited: {}, completed: false };

export function foldTranscript(transcript: Transcript, event: RunEvent): Transcript {
  switch (event.type) {
    case 'run.created': {
      const before = event.history === null ? emptyTranscript : transcript;
      const messages = [...before.messages, ...event.messages];
      const runStart = before.messages.length;
      const anew = { open: null, adrift: false, spentIds: [], recalled: null };
      return { ...before, ...anew, messages, runStart };
    }
    case 'agent.started':
      if (event.spawned === undefined) return transcript;
      return { ...emptyTranscript, messages: [{ role: 'user', content: event.spawned.task }] };
    case 'context.compacted':
      return compacted(transcript, event);
    case 'memory.recalled':
      return { ...transcript, recalled: recalledMessage(event) };
    case 'turn.started':
      return { ...transcript, open: newTurn };
    case 'turn.discarded':
      return { ...transcript, open: null };
    case 'text.appended':
      return inTurn(transcript, (turn) => ({ ...turn, text: turn.text + event.text }));
    case 'tool.called':
      return inTurn(transcript, (turn) => ({ ...turn, calls: [...turn.calls, callOf(event)] }));
    case 'turn.completed':
      return closeIfSettled(
        inTurn(transcript, (turn) => ({
          ...turn,
          completed: true,
          providerData: event.providerData,
        })),
      );
    case 'approval.decided':
      return event.input === undefined ? transcript : edited(transcript, event);
    case 'tool.completed':
      return settle(transcript, event.toolCallId, readingOf(event));
    case 'tool.failed':
    case 'tool.denied':
      return settle(transcript, event.toolCallId, JSON.stringify(outputOfUnsuccessful(event)));
    case 'run.ended':
      return interrupted(transcript);
    default:
      return transcript;
  }
}

/** The same as `foldTranscript` one by one; the pieces of a text are joined first. */
export function foldEvents(transcript: Transcript, events: readonly RunEvent[]): Transcript {
  let next = transcript;
  let pieces: string[] = [];
  const flush = () => {
    const said = pieces.join('');
    pieces = [];
    next = inTurn(next, (turn) => ({ ...turn, text: turn.text + said }));
  };
  for (const event of events) {
    if (event.type === 'text.appended') {
      pieces.push(event.text);
      continue;
    }
    if (pieces.length > 0) flush();
    next = foldTranscript(next, event);
  }
  if (pieces.length > 0) flush();
  return next;
}

/** What the model reads of a result. */
export function readingOf(event: Pick<EventOf<'tool.completed'>, 'context' | 'result'>): string {
  const { context, result } = event;
  return context ?? JSON.stringify({ context, result });
}

function callOf(event: EventOf<'tool.called'>): MessageToolCall {
  // Arguments that were no object are told in the tool's error; providers refuse them in a request.
  const text = typeof event.input === 'string' ? '{}' : JSON.stringify(event.input);
  return {
    id: event.toolCallId,
    type: 'function',
    function: { name: event.name, arguments: text },
  };
}

function inTurn(transcript: Transcript, change: (turn: OpenTurn) => OpenTurn): Transcript {
  return transcript.open === null ? transcript : { ...transcript, open: change(transcript.open) };
}

function edited(transcript: Transcript, event: EventOf<'approval.decided'>): Transcript {
  const { toolCallId, input } = event;
  return inTurn(transcript, (turn) => ({
    ...turn,
    edited: { ...turn.edited, [toolCallId]: input },
  }));
}

/** The provider's call keeps the model's own arguments: the result has to say that others ran. */
function editNote(input: unknown): string {
  return (
    'A person changed the arguments of this call before they approved it. ' +
    `What was approved is: ${JSON.stringify(input)}\n\n`
  );
}

function settle(transcript: Transcript, toolCallId: string, reading: string): Transcript {
  return closeIfSettled(
    inTurn(transcript, (turn) => {
      const note = Object.hasOwn(turn.edited, toolCallId) ? editNote(turn.edited[toolCallId]) : '';
      return { ...turn, results: { ...turn.results, [toolCallId]: note + reading } };
    }),
  );
}

function closeIfSettled(transcript: Transcript): Transcript {
  const turn = transcript.open;
  if (turn === null || !turn.completed) return transcript;
  if (turn.calls.some((call) => !Object.hasOwn(turn.results, call.id))) return transcript;
  const messages: Message[] = [...transcript.messages];
  const { providerData } = turn;
  const attached = providerData === undefined ? {} : { providerData };
  if (turn.calls.length === 0) {
    if (turn.text !== '') messages.push({ role: 'assistant', content: turn.text, ...attached });
  } else {
    messages.push({
      role: 'assistant',
      content: turn.text || null,
      tool_calls: [...turn.calls],
      ...attached,
    });
    for (const call of turn.calls) {
      messages.push({
        role: 'tool',
        tool_call_id: call.id,
        content: turn.results[call.id] ?? '',
      });
    }
  }
  return { ...transcript, messages, open: null };
}

/** A person who stopped an answer has read what there was of it: the next turn should know it. */
function interrupted(transcript: Transcript): Transcript {
  const said = transcript.open?.text ?? '';
  if (said === '' || transcript.open?.completed === true) return { ...transcript, open: null };
  const messages: Message[] = [...transcript.messages, { role: 'assistant', content: said }];
  return { ...transcript, messages, open: null };
}

/**
 * Instructions at the front stay. Another run of the conversation may have ended since: what it said
 * lies between the two parts that are counted, and stays too.
 */
function compacted(transcript: Transcript, event: EventOf<'context.compacted'>): Transcript {
  const { messages, runStart, generation, adrift, spentIds } = transcript;
  if (adrift || event.generation !== generation) return { ...transcript, adrift: true };
  const lead = leadingInstructions(messages);
  const history = messages.slice(Math.max(lead, event.ofHistory), runStart);
  const own = messages.slice(runStart, runStart + event.ofRun);
  // Instructions that came with the run, where others came before it.
  const ownLead = runStart === 0 ? 0 : leadingInstructions(own);
  const summary: Message = { role: 'user', content: event.summary };
  return {
    ...transcript,
    messages: [
      ...messages.slice(0, lead),
      summary,
      ...history,
      ...own.slice(0, ownLead),
      ...messages.slice(Math.max(lead, runStart + event.ofRun)),
    ],
    runStart: lead + 1 + history.length,
    generation: generation + 1,
    spentIds: [...new Set([...spentIds, ...callIdsIn(messages)])],
  };
}

export function callIdsIn(messages: readonly Message[]): string[] {
  return messages.flatMap((message) =>
    message.role === 'assistant' ? (message.tool_calls ?? []).map(({ id }) => id) : [],
  );
}

export function leadingInstructions(messages: readonly Message[]): number {
  const first = messages.findIndex(({ role }) => role !== 'system');
  return first < 0 ? messages.length : first;
}
