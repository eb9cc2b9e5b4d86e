/** The transcripts of all agents of a run: each reads its own, and the first one's is the conversation. */
import type { RunEvent } from '@relay/protocol';
import { callIdsIn, emptyTranscript, foldEvents, type Transcript } from './transcript.ts';

export interface Transcripts {
  readonly first: Transcript;
  /** Of the sub-agents that are at work. */
  readonly subs: Readonly<Record<string, Transcript>>;
  /** Ids of tool calls that ended sub-agents made: no other call of the run may have them. */
  readonly spentIds: readonly string[];
}

export const noTranscripts: Transcripts = { first: emptyTranscript, subs: {}, spentIds: [] };

/** A row of events of one agent is folded in one go. */
export function foldTranscripts(
  transcripts: Transcripts,
  events: readonly RunEvent[],
): Transcripts {
  let next = transcripts;
  for (let from = 0; from < events.length;) {
    const owner = subAgentOf(events[from]);
    let to = from + 1;
    while (to < events.length && subAgentOf(events[to]) === owner) to += 1;
    const row = events.slice(from, to);
    next =
      owner === undefined
        ? { ...next, first: foldEvents(next.first, row) }
        : foldSub(next, owner, row);
    from = to;
  }
  return next;
}

function foldSub(
  transcripts: Transcripts,
  agentId: string,
  events: readonly RunEvent[],
): Transcripts {
  const folded = foldEvents(transcripts.subs[agentId] ?? emptyTranscript, events);
  if (events.at(-1)?.type !== 'agent.ended') {
    return { ...transcripts, subs: { ...transcripts.subs, [agentId]: folded } };
  }
  const { [agentId]: _, ...subs } = transcripts.subs;
  return { ...transcripts, subs, spentIds: [...transcripts.spentIds, ...callIdsOf(folded)] };
}

/** What an agent reads. */
export function transcriptOf(
  transcripts: Transcripts,
  agent: { id: string; parentId: string | null },
): Transcript {
  return agent.parentId === null
    ? transcripts.first
    : (transcripts.subs[agent.id] ?? emptyTranscript);
}

/** Every tool call id that the run, or what it reads of the conversation, has used so far. */
export function usedCallIds(transcripts: Transcripts): Set<string> {
  const all = [transcripts.first, ...Object.values(transcripts.subs)];
  return new Set([...transcripts.spentIds, ...all.flatMap(callIdsOf)]);
}

function callIdsOf({ messages, open, spentIds }: Transcript): string[] {
  const going = open?.calls.map(({ id }) => id) ?? [];
  return [...spentIds, ...callIdsIn(messages), ...going];
}

function subAgentOf(event: RunEvent | undefined): string | undefined {
  return event !== undefined && 'parentId' in event && event.parentId !== undefined
    ? event.agentId
    : undefined;
}
