/** What must be true of every journal of a run that is over, whatever happened to it. */
import { evolve, initialState, type RunRecord } from '@relay/core';
import type { EventOf, Stored, StoredEvent } from '@relay/protocol';
import { addUsage, noUsage, type Usage } from '@relay/protocol';
import { expect } from 'vitest';
import { expectSoundTree, isSettlement } from './agent-tree.ts';

export function expectSoundJournal(events: readonly StoredEvent[], row?: RunRecord): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.filter(({ type }) => type === 'run.ended')).toHaveLength(1);
  expect(events.at(-1)?.type).toBe('run.ended');
  expectEachCallSettledOnce(events);
  expectEachApprovalAnsweredOnce(events);
  expectNoStartBeforeDecision(events);
  if (isBuried(events)) return;
  expectSoundTree(events);
  expectEachTextOfOneAgent(events);
  expectNoMessageTwice(events);
  expectUsageAddsUp(events);
  expectSameFold(events, row);
}

/** A run whose stored state could not be trusted ends at once, and its agents with it. */
function isBuried(events: readonly StoredEvent[]): boolean {
  const started = events.filter(({ type }) => type === 'agent.started').length;
  const ended = events.filter(({ type }) => type === 'agent.ended').length;
  const end = events.at(-1);
  return ended < started && end?.type === 'run.ended' && end.error?.code === 'journal_corrupt';
}

/** Ids of calls are unique in the whole run, whichever agent makes them (E6). */
function expectEachCallSettledOnce(events: readonly StoredEvent[]): void {
  const settled = new Map<string, number>();
  for (const event of events) {
    if (event.type === 'tool.called') {
      expect([...settled.keys()]).not.toContain(event.toolCallId);
      settled.set(event.toolCallId, 0);
    }
    if (isSettlement(event)) {
      settled.set(event.toolCallId, (settled.get(event.toolCallId) ?? Number.NaN) + 1);
    }
  }
  expect([...settled].filter(([, times]) => times !== 1)).toEqual([]);
}

function expectEachApprovalAnsweredOnce(events: readonly StoredEvent[]): void {
  const answers = new Map<string, number>();
  for (const event of events) {
    if (event.type === 'approval.requested') answers.set(event.approvalId, 0);
    if (
      event.type === 'approval.decided' ||
      event.type === 'approval.expired' ||
      event.type === 'approval.closed'
    ) {
      answers.set(event.approvalId, (answers.get(event.approvalId) ?? Number.NaN) + 1);
    }
  }
  expect([...answers].filter(([, times]) => times !== 1)).toEqual([]);
}

/** A call that was asked about starts only after an approver approved it (E7). */
function expectNoStartBeforeDecision(events: readonly StoredEvent[]): void {
  const asked = new Set<string>();
  for (const event of events) {
    // What a tool asks while it runs is not whether it may.
    if (event.type === 'approval.requested' && event.kind !== 'question')
      asked.add(event.toolCallId);
    if (event.type === 'approval.decided' && event.approved) asked.delete(event.toolCallId);
    if (event.type === 'tool.started') expect(asked).not.toContain(event.toolCallId);
  }
}

/** A message is taken once. */
function expectNoMessageTwice(events: readonly StoredEvent[]): void {
  const ids = events.flatMap((event) => (event.type === 'message.added' ? event.messageId : []));
  expect(new Set(ids).size).toBe(ids.length);
}

function expectEachTextOfOneAgent(events: readonly StoredEvent[]): void {
  const owners = new Map<string, string>();
  const open = new Map<string, Stored<EventOf<'turn.started'>>>();
  for (const event of events) {
    if (event.type === 'turn.started') {
      for (const id of [event.textId, event.reasoningId]) {
        expect(owners.has(id)).toBe(false);
        owners.set(id, event.agentId);
      }
      open.set(event.agentId, event);
    }
    if (event.type === 'text.appended') {
      expect(open.get(event.agentId)?.textId).toBe(event.textId);
    }
    if (event.type === 'reasoning.appended') {
      expect(open.get(event.agentId)?.reasoningId).toBe(event.reasoningId);
    }
    if (event.type === 'turn.discarded') {
      const turn = open.get(event.agentId);
      expect(turn).toMatchObject({ seq: event.after, textId: event.textId, turn: event.turn });
    }
    if (event.type === 'turn.discarded' || event.type === 'turn.completed') {
      open.delete(event.agentId);
    }
  }
}

/** What an agent used up is what its own turns did, and its sub-agents; the first one’s is the run’s. */
function expectUsageAddsUp(events: readonly StoredEvent[]): void {
  const used = new Map<string, Usage>();
  const add = (agentId: string | undefined, usage: Usage) =>
    used.set(agentId ?? '', addUsage(used.get(agentId ?? '') ?? noUsage, usage));
  for (const event of events) {
    if (event.type === 'turn.completed' || event.type === 'context.compacted') {
      add(event.agentId, event.usage);
    }
    if (event.type === 'turn.discarded') add(event.agentId, event.usage ?? noUsage);
    if (event.type === 'agent.ended') {
      expectSameUsage(event.usage, used.get(event.agentId) ?? noUsage);
      add(event.parentId, event.usage);
    }
    if (event.type === 'run.ended') expectSameUsage(event.usage, used.get('') ?? noUsage);
  }
}

/** Money is added up in another order here, so that its last digits may differ. */
function expectSameUsage(usage: Usage, expected: Usage): void {
  const { inputTokens, outputTokens, costUsd } = expected;
  expect(usage).toMatchObject({ inputTokens, outputTokens });
  if (costUsd === undefined) expect(usage.costUsd).toBeUndefined();
  else expect(usage.costUsd).toBeCloseTo(costUsd, 10);
}

/** The journal never contradicts itself, and ends where the row beside it says. */
function expectSameFold(events: readonly StoredEvent[], row: RunRecord | undefined): void {
  const state = events.reduce(evolve, initialState);
  if (row === undefined) return;
  expect(row).toMatchObject({ status: state.status, lastSeq: state.seq, usage: state.usage });
  const end = events.at(-1);
  const output = end?.type === 'run.ended' ? end.output : undefined;
  // The row has only what the journal does not have as the text of a turn.
  const inRow = row.answerSeq === null ? output : null;
  expect(JSON.parse(row.outputJson ?? 'null')).toMatchObject({ output: inRow });
  if (row.answerSeq !== null) expect(textOfTurn(events, row.answerSeq)).toBe(output);
}

/** The text of the turn that started at `seq`. */
function textOfTurn(events: readonly StoredEvent[], seq: number): string {
  const start = events[seq - 1];
  const textId = start?.type === 'turn.started' ? start.textId : undefined;
  const texts = events.flatMap((event) =>
    event.type === 'text.appended' && event.textId === textId ? [event.text] : [],
  );
  return texts.join('');
}
