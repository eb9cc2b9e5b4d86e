/** What an answer costs in memory while it is read. */
import { queryObjects } from 'node:v8';
import { expect, it } from 'vitest';
import { emptyTranscript, foldTranscript } from '../../src/run/context/transcript.ts';
import { evolve, initialState } from '../../src/run/state/state.ts';
import { noText, textOf } from '../../src/runtime/growing-text.ts';
import { at, eventsOf, fold, runCreated, runStarted } from '../support/agent-events.ts';

/** Of the heap, after a garbage collection. */
function heapUsed(): number {
  queryObjects(Map, { format: 'count' });
  return process.memoryUsage().heapUsed;
}

it('an answer of a million small pieces takes about two bytes per character', () => {
  const agent = eventsOf({ agentId: 'root' });
  const opening = [runCreated(), runStarted, agent.started, agent.turn];
  let state = fold(initialState, ...opening);
  let transcript = opening.reduce(foldTranscript, emptyTranscript);
  const before = heapUsed();
  const chars = 4 * 1024 * 1024;
  for (let length = 0; length < chars; length += 4) {
    // As a parser makes it: a text of its own.
    const text = JSON.parse(`"${(length % 9_000) + 1_000}"`) as string;
    const piece = agent.said(text);
    state = evolve(state, { ...piece, seq: state.seq + 1, at });
    transcript = foldTranscript(transcript, piece);
  }
  const bytesPerChar = (heapUsed() - before) / chars;
  expect(textOf(Object.values(state.agents)[0]?.turn?.text ?? noText)).toHaveLength(chars);
  expect(textOf(transcript.open?.text ?? noText)).toHaveLength(chars);
  expect(bytesPerChar).toBeLessThan(2.5);
});
