/**
 * The transcript: what the model reads, as a pure fold of journals (E4).
 *
 * A run's part begins with its input. A completed turn adds the assistant's message; once all calls
 * of the turn are settled, their results follow in the order of the calls, whatever order they
 * finished in. A discarded turn leaves nothing.
 */
import {
  type EventOf,
  type Message,
  type MessageToolCall,
  outputOfUnsuccessful,
  type RunEvent,
} from '@relay/protocol';

interface OpenTurn {
  readonly text: string;
  readonly calls: readonly MessageToolCall[];
  readonly results: Readonly<Record<string, string>>;
  readonly completed: boolean;
}

export interface Transcript {
  readonly messages: readonly Message[];
  readonly open: OpenTurn | null;
}

export const emptyTranscript: Transcript = { messages: [], open: null };

const newTurn: OpenTurn = { text: '', calls: [], results: {}, completed: false };

export function foldTranscript(transcript: Transcript, event: RunEvent): Transcript {
  // A sub-agent has a transcript of its own.
  if ('parentId' in event && event.parentId !== undefined) return transcript;
  switch (event.type) {
    case 'run.created': {
      const before = event.history === null ? [] : transcript.messages;
      return { messages: [...before, ...event.messages], open: null };
    }
    case 'turn.started':
      return { ...transcript, open: newTurn };
    case 'turn.discarded':
      return { ...transcript, open: null };
    case 'text.appended':
      return inTurn(transcript, (turn) => ({ ...turn, text: turn.text + event.text }));
    case 'tool.called':
      return inTurn(transcript, (turn) => ({ ...turn, calls: [...turn.calls, callOf(event)] }));
    case 'turn.completed':
      return closeIfSettled(inTurn(transcript, (turn) => ({ ...turn, completed: true })));
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
    if (event.type === 'text.appended' && event.parentId === undefined) {
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

/** Every tool call id that the transcript already uses. */
export function usedCallIds(messages: readonly Message[]): Set<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role !== 'assistant') continue;
    for (const call of message.tool_calls ?? []) ids.add(call.id);
  }
  return ids;
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

function settle(transcript: Transcript, toolCallId: string, reading: string): Transcript {
  return closeIfSettled(
    inTurn(transcript, (turn) => ({
      ...turn,
      results: { ...turn.results, [toolCallId]: reading },
    })),
  );
}

function closeIfSettled(transcript: Transcript): Transcript {
  const turn = transcript.open;
  if (turn === null || !turn.completed) return transcript;
  if (turn.calls.some((call) => !Object.hasOwn(turn.results, call.id))) return transcript;
  const messages: Message[] = [...transcript.messages];
  if (turn.calls.length === 0) {
    if (turn.text !== '') messages.push({ role: 'assistant', content: turn.text });
  } else {
    messages.push({ role: 'assistant', content: turn.text || null, tool_calls: [...turn.calls] });
    for (const call of turn.calls) {
      messages.push({
        role: 'tool',
        tool_call_id: call.id,
        content: turn.results[call.id] ?? '',
      });
    }
  }
  return { messages, open: null };
}

/** A person who stopped an answer has read what there was of it: the next turn should know it. */
function interrupted(transcript: Transcript): Transcript {
  const said = transcript.open?.text ?? '';
  if (said === '' || transcript.open?.completed === true) return { ...transcript, open: null };
  return {
    messages: [...transcript.messages, { role: 'assistant', content: said }],
    open: null,
  };
}
