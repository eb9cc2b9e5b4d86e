/**
 * The machine against a model: random inputs, legal and not. The model keeps three facts and no parts;
 * the events are checked afterwards, as a journal.
 */
import { type AgentStatus, agentStatuses, type SessionEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { at, deepFreeze } from '../support/agent-events.ts';
import {
  decideSession,
  sessionCreated,
  type SessionInputName,
  sessionInputs,
  sessionTable,
} from '../../src/sessions/session-machine.ts';
import {
  emptySessionFold,
  foldSession,
  newSession,
  type SessionFold,
  type SessionState,
  statusOf,
} from '../../src/sessions/state.ts';

const sessionId = 's1';

/** What a person at the session would note down. */
interface Model {
  end: 'releasing' | 'released' | 'failed' | undefined;
  isLost: boolean;
  pause: 'none' | 'requested' | 'held';
  /** `starting` until it has started. */
  doing: 'starting' | 'idle' | 'active' | 'waiting' | 'blocked';
}

interface Real {
  state: SessionState;
  fold: SessionFold;
  readonly journal: SessionEvent[];
}

function statusIn({ end, isLost, pause, doing }: Model): AgentStatus {
  if (end !== undefined) return end;
  if (isLost) return 'offline';
  return pause === 'held' ? 'paused' : doing;
}

function turn(model: Model, doing: Model['doing']): void {
  if (model.doing !== 'starting') model.doing = doing;
}

function stop(model: Model, doing: Model['doing']): void {
  turn(model, doing);
  if (model.pause === 'requested') model.pause = 'held';
}

function apply(model: Model, input: SessionInputName): void {
  switch (input) {
    case 'start':
      if (model.doing === 'starting') model.doing = 'idle';
      return;
    case 'work':
      return turn(model, 'active');
    case 'wait':
      return stop(model, 'waiting');
    case 'block':
      return stop(model, 'blocked');
    case 'settle':
      return stop(model, 'idle');
    case 'lose':
      model.isLost = true;
      return;
    case 'reach':
      model.isLost = false;
      return;
    case 'attach':
      stop(model, 'idle');
      if (model.end === 'failed') model.pause = 'none';
      Object.assign(model, { isLost: false, end: undefined, doing: 'idle' });
      return;
    case 'pause':
      if (model.pause === 'none') model.pause = model.doing === 'active' ? 'requested' : 'held';
      return;
    case 'hold':
      model.pause = 'held';
      return;
    case 'resume':
      model.pause = 'none';
      return;
    case 'release':
      if (model.end !== 'released') model.end = 'releasing';
      return;
    case 'finish':
      model.end = 'released';
      return;
    case 'fail':
      model.end = 'failed';
      return;
    case 'cancel':
    case 'fork':
    case 'snapshot':
      return;
  }
}

function append(real: Real, events: readonly SessionEvent[]): void {
  for (const event of events) {
    real.fold = foldSession(real.fold, deepFreeze({ ...event, seq: real.fold.seq + 1, at }));
    real.journal.push(event);
  }
}

function given(type: SessionInputName): fc.Command<Model, Real> {
  return {
    check: () => true,
    run: (model, real) => {
      const input = deepFreeze({ type, sessionId });
      const before = statusIn(model);
      const decision = decideSession(real.state, input);
      expect(decideSession(real.state, input)).toEqual(decision);
      if (sessionTable[before][type].length === 0) {
        expect(decision.kind).toBe('refused');
        return;
      }
      apply(model, type);
      expect(decision.kind).not.toBe('refused');
      if (decision.kind === 'accepted') {
        real.state = deepFreeze(decision.state);
        append(real, decision.events);
      }
      expect(statusOf(real.state)).toBe(statusIn(model));
      // The journal alone shows the same status, and a change of it is an event.
      expect(real.fold.status).toBe(statusIn(model));
      expect(JSON.parse(JSON.stringify(real.state))).toStrictEqual(real.state);
      const isRequest = ['attach', 'cancel', 'fork', 'snapshot'].includes(type);
      if (!isRequest) expect(decideSession(real.state, input)).toEqual({ kind: 'same' });
    },
    toString: () => type,
  };
}

/** Ends are rare, so that most sequences come far. */
const ends: readonly SessionInputName[] = ['release', 'finish', 'fail'];
const others = sessionInputs.filter((type) => !ends.includes(type));
const steps = fc.commands(
  [
    fc.constant(given('start')),
    ...Array.from({ length: 8 }, () => fc.constantFrom(...others).map(given)),
    fc.constantFrom(...ends).map(given),
  ],
  { maxCommands: 60, size: 'max' },
);

describe('the machine of a session', () => {
  it('has one of the ten statuses, which its parts, its journal and the model agree on', () => {
    const seen = new Set<AgentStatus>();
    fc.assert(
      fc.property(steps, (all) => {
        const model: Model = { end: undefined, isLost: false, pause: 'none', doing: 'starting' };
        const real: Real = { state: newSession, fold: emptySessionFold, journal: [] };
        append(real, sessionCreated(sessionId));
        fc.modelRun(() => ({ model, real }), all);
        for (const event of real.journal) {
          if (event.type === 'status.changed') seen.add(event.status);
        }
        const released = real.journal.filter(({ type }) => type === 'session.released');
        expect(released).toHaveLength(model.end === 'released' ? 1 : 0);
        if (model.end === 'released') expect(real.journal.at(-1)?.type).toBe('session.released');
      }),
      { numRuns: 500 },
    );
    expect(seen).toEqual(new Set(agentStatuses));
  });

  it('stores nothing more after its release, whatever comes', () => {
    fc.assert(
      fc.property(steps, fc.array(fc.constantFrom(...sessionInputs)), (all, later) => {
        const model: Model = { end: undefined, isLost: false, pause: 'none', doing: 'starting' };
        const real: Real = { state: newSession, fold: emptySessionFold, journal: [] };
        append(real, sessionCreated(sessionId));
        fc.modelRun(() => ({ model, real }), all);
        given('release').run(model, real);
        given('finish').run(model, real);
        for (const type of later) {
          expect(decideSession(real.state, { type, sessionId }).kind).not.toBe('accepted');
        }
      }),
      { numRuns: 200 },
    );
  });
});
