/** How a tree of agents ends that is stopped in the middle of whatever its agents do. */
import type { EventOf, RunEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventsOf, fold, noTrust as trust, runStarted } from '../../support/agent-events.ts';
import { agentFields, openCalls } from '../../../src/run/state/agent.ts';
import { type CallPhase, callPhases } from '../../../src/run/state/call.ts';
import { type Command, decide } from '../../../src/run/state/machine.ts';
import { initialState, liveAgents, type RunState } from '../../../src/run/state/state.ts';

const error = { code: 'provider_failed', message: 'The model is overloaded', retryable: true };
const fail: Command = { type: 'fail', error, trust };
const cancel: Command = { type: 'cancel', reason: 'Stopped by ann', trust };

const levels = [
  { agentId: 'root' },
  { agentId: 'sub', parentId: 'root' },
  { agentId: 'deep', parentId: 'sub' },
] as const;

/** What an agent is doing besides waiting for the agent below it. */
interface Doing {
  /** A call in each of these phases. */
  readonly phases: readonly CallPhase[];
  /** The call that the agent below works for is delegated, not a tool that spawned it. */
  readonly delegates: boolean;
  /** The call that the agent below works for has come to be asked about. */
  readonly asks: boolean;
}

/** Brings a call of a completed turn into a phase. */
function towards(phase: CallPhase, id: string, of: ReturnType<typeof eventsOf>): RunEvent[] {
  switch (phase) {
    case 'called':
      return [];
    case 'asking':
      return [of.requested(id)];
    case 'decided':
      return [of.requested(id), of.decided(id)];
    case 'started':
      return [of.start(id)];
    case 'settled':
      return [of.start(id), of.done(id)];
  }
}

/** A tree of three agents; what the deepest does may stop short of its turn, or of a whole turn. */
function treeOf(doing: readonly [Doing, Doing, Doing], last: 'idle' | 'talking' | 'calls') {
  let state = fold(initialState, runStarted, eventsOf(levels[0]).started);
  for (const [depth, level] of levels.entries()) {
    const of = eventsOf(level);
    const { phases, delegates, asks } = doing[depth] as Doing;
    const isLast = depth === levels.length - 1;
    if (isLast && last === 'idle') break;
    state = fold(state, of.turn, of.said(`said by ${level.agentId}. `));
    if (isLast && last === 'talking') break;
    const ids = phases.map((_, n) => `${level.agentId}_${n}`);
    const below = `${level.agentId}_below`;
    const all = isLast ? ids : [...ids, below];
    state = fold(state, ...all.map((id) => of.called(id)), of.completed);
    state = fold(state, ...phases.flatMap((phase, n) => towards(phase, ids[n] ?? '', of)));
    if (isLast) break;
    const next = levels[depth + 1];
    if (next === undefined) break;
    state = fold(state, of.start(below, delegates ? { via: 'agent' } : {}));
    state = fold(state, eventsOf(next).spawnedBy(below));
    if (asks && !delegates) state = fold(state, of.requested(below, { kind: 'outcome' }));
  }
  return state;
}

const doings = fc.record({
  phases: fc.array(fc.constantFrom(...callPhases), { maxLength: 4 }),
  delegates: fc.boolean(),
  asks: fc.boolean(),
});
const trees = fc
  .tuple(fc.tuple(doings, doings, doings), fc.constantFrom('idle', 'talking', 'calls'))
  .map(([doing, last]) => treeOf(doing, last));

function endingOf(state: RunState, command: Command): readonly RunEvent[] {
  const decision = decide(state, command);
  if (!decision.ok) throw new Error(decision.reason);
  return decision.events;
}

function where(events: readonly RunEvent[], type: RunEvent['type'], id: string): number {
  const found = events.flatMap((event, index) => {
    if (event.type !== type) return [];
    if ('toolCallId' in event) return event.toolCallId === id ? [index] : [];
    return 'agentId' in event && event.agentId === id ? [index] : [];
  });
  expect(found, `${type} of ${id}`).toHaveLength(1);
  return found[0] ?? -1;
}

/** What holds of the end of any tree. */
function checkEnding(state: RunState, command: Command): void {
  const events = endingOf(state, command);
  const over = fold(state, ...events);
  expect(over.status).toBe(command.type === 'fail' ? 'failed' : 'canceled');
  expect(liveAgents(over)).toEqual([]);
  for (const agent of liveAgents(state)) {
    const end = where(events, 'agent.ended', agent.id);
    expect(events[end]).toMatchObject(agentFields(agent));
    if (agent.parentId !== null) {
      expect(end).toBeLessThan(where(events, 'agent.ended', agent.parentId));
      expect(end).toBeLessThan(where(events, 'tool.failed', agent.spawned?.toolCallId ?? ''));
    }
    for (const call of openCalls(agent)) {
      const settled = where(events, 'tool.failed', call.toolCallId);
      expect(settled).toBeLessThan(end);
      expect(events[settled]).toMatchObject(agentFields(agent));
      if (call.phase !== 'asking') continue;
      expect(where(events, 'approval.closed', call.toolCallId)).toBe(settled - 1);
    }
  }
  const open = liveAgents(state).flatMap(openCalls);
  expect(events.filter(({ type }) => type === 'tool.failed')).toHaveLength(open.length);
  expect(events.filter(({ type }) => type === 'approval.closed')).toHaveLength(
    open.filter(({ phase }) => phase === 'asking').length,
  );
  expect(events.slice(-2).map(({ type }) => type)).toEqual(['run.summarized', 'run.ended']);
}

describe.each([fail, cancel])('a tree of agents that ends by $type', (command) => {
  it('folds without a contradiction, sub-agents before their parents, in every phase (E6)', () => {
    fc.assert(
      fc.property(trees, (state) => checkEnding(state, command)),
      { numRuns: 300 },
    );
  });

  it('does so too while it waits for approvals', () => {
    fc.assert(
      fc.property(trees, (state) => {
        const decision = decide(state, { type: 'suspend' });
        if (!decision.ok) throw new Error(decision.reason);
        checkEnding(fold(state, ...decision.events), command);
      }),
      { numRuns: 100 },
    );
  });

  it('says of the root agent what the whole tree has used', () => {
    fc.assert(
      fc.property(trees, (state) => {
        const events = endingOf(state, command);
        const ends = events.filter((event) => event.type === 'agent.ended');
        expect(ends.at(-1)).toMatchObject({ agentId: 'root', usage: state.usage });
        expect(events.at(-1)).toMatchObject({ type: 'run.ended', usage: state.usage });
        // The fold adds a sub-agent's use to its parent's, so that both say the same.
        const before = fold(state, ...events.slice(0, -3));
        expect(before.agents['root']?.usage).toEqual(state.usage);
      }),
    );
  });
});

describe('a call that an ended agent had worked for', () => {
  const codes = (state: RunState) =>
    Object.fromEntries(
      endingOf(state, cancel)
        .filter((event): event is EventOf<'tool.failed'> => event.type === 'tool.failed')
        .map(({ toolCallId, code }) => [toolCallId, code]),
    );
  const waiting = { phases: [], asks: false };

  it('has no unknown outcome if it was delegated: all of it is in the journal', () => {
    const doing = { ...waiting, delegates: true };
    expect(codes(treeOf([doing, doing, doing], 'talking'))).toEqual({
      root_below: 'run_canceled',
      sub_below: 'run_canceled',
    });
  });

  it('has an unknown outcome if a tool had spawned it, which may have done more', () => {
    const doing = { ...waiting, delegates: false };
    expect(codes(treeOf([doing, doing, doing], 'talking'))).toEqual({
      root_below: 'outcome_unknown',
      sub_below: 'outcome_unknown',
    });
  });
});

describe('the output of a run that is stopped', () => {
  it('is the text of the root agent, whichever agents are active', () => {
    const doing: Doing = { phases: [], delegates: true, asks: false };
    const events = endingOf(treeOf([doing, doing, doing], 'talking'), cancel);
    expect(events.at(-1)).toMatchObject({ output: 'said by root. ' });
  });
});

describe('completing', () => {
  it('is refused while a sub-agent is at work, whatever it is doing', () => {
    fc.assert(
      fc.property(trees, (state) => {
        expect(decide(state, { type: 'complete', reason: 'completed', trust }).ok).toBe(false);
      }),
    );
  });
});
