import type { EventOf, Stored } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CallEvent,
  type CallPhase,
  callPhases,
  type CallState,
  callSteps,
  callTable,
  evolveCall,
  stepOf,
} from '../../../src/run/state/call.ts';

const of = { agentId: 'agent', toolCallId: 'call_1' };
const tool = { ...of, name: 'bash' };
const by = { type: 'key', id: 'k1', name: 'ann' } as const;

const started: EventOf<'tool.started'> = {
  type: 'tool.started',
  ...tool,
  input: {},
  idempotencyKey: 'key-1',
};
const completed: CallEvent = { type: 'tool.completed', ...tool, result: 1 };
const failed: CallEvent = { type: 'tool.failed', ...tool, error: 'broke', code: 'tool_failed' };
const denied: CallEvent = { type: 'tool.denied', ...tool, status: 'denied' };
const expired: CallEvent = { type: 'approval.expired', ...of, approvalId: 'approval_1' };
const closed: CallEvent = {
  type: 'approval.closed',
  ...of,
  approvalId: 'approval_1',
  reason: 'over',
};

function requested(
  approvalId = 'approval_1',
  kind: 'permission' | 'outcome' = 'permission',
): CallEvent {
  const shown = { tool: 'bash', params: {}, digest: `digest of ${approvalId}`, agentPath: ['a'] };
  return {
    type: 'approval.requested',
    ...of,
    approvalId,
    kind,
    ...shown,
    expiresAt: '2026-03-02T10:00:00Z',
  };
}

function decided(approved: boolean, approvalId = 'approval_1'): CallEvent {
  return { type: 'approval.decided', ...of, approvalId, approved, by };
}

const everyEvent = [
  started,
  completed,
  failed,
  denied,
  requested(),
  decided(true),
  decided(false),
  expired,
  closed,
];

const called: CallState = { toolCallId: 'call_1', name: 'bash', input: { a: 1 }, phase: 'called' };

const approval = {
  id: 'approval_1',
  seq: 7,
  kind: 'permission',
  digest: 'd',
  expiresAt: '2026',
} as const;

function stored(event: CallEvent): Stored<CallEvent> {
  return { ...event, seq: 8, at: '2026-03-01T10:00:00Z' };
}

function inPhase(phase: CallPhase): CallState {
  return Object.freeze(phase === 'called' ? called : { ...called, phase, approval });
}

/** The call after all events, or the first of them that was refused. */
function play(...events: CallEvent[]): CallState | string {
  let call: CallState = called;
  for (const event of events) {
    const next = evolveCall(Object.freeze(call), stored(event));
    if (next === undefined) return `refused ${event.type}`;
    call = next;
  }
  return call;
}

describe('the table of a call', () => {
  it('is total: every phase says what each step makes of it', () => {
    expect(Object.keys(callTable)).toEqual([...callPhases]);
    for (const phase of callPhases) {
      expect(Object.keys(callTable[phase]).toSorted()).toEqual([...callSteps].toSorted());
      for (const step of callSteps) {
        expect([...callPhases, 'refused']).toContain(callTable[phase][step]);
      }
    }
  });

  it('lets nothing leave settled (E6)', () => {
    expect(new Set(Object.values(callTable.settled))).toEqual(new Set(['refused']));
  });

  it('never starts or settles a call about which a person is being asked', () => {
    const { start, settle, deny } = callTable.asking;
    expect({ start, settle, deny }).toEqual({
      start: 'refused',
      settle: 'refused',
      deny: 'refused',
    });
  });

  it('never denies what has already started', () => {
    expect(callTable.started.deny).toBe('refused');
  });

  it('reaches settled from every phase', () => {
    for (const phase of callPhases) {
      const reached = new Set<CallPhase>([phase]);
      for (const from of reached) {
        for (const to of Object.values(callTable[from])) if (to !== 'refused') reached.add(to);
      }
      expect(reached, phase).toContain('settled');
    }
  });

  it.each(
    callPhases.flatMap((phase) => everyEvent.map((event) => [phase, event.type, event] as const)),
  )('decides what a call that is %s makes of %s', (phase, _type, event) => {
    const next = evolveCall(inPhase(phase), stored(event));
    const expected = callTable[phase][stepOf[event.type]];
    expect(next?.phase ?? 'refused').toBe(expected);
  });

  it('accepts at most one end, whatever comes in whatever order (E6)', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...everyEvent), { maxLength: 30 }), (events) => {
        let call: CallState = called;
        let ends = 0;
        for (const event of events) {
          const next = evolveCall(Object.freeze(call), stored(event));
          if (next === undefined) continue;
          expect(call.phase).not.toBe('settled');
          call = next;
          if (call.phase === 'settled') ends += 1;
        }
        expect(ends).toBe(call.phase === 'settled' ? 1 : 0);
      }),
    );
  });
});

describe('a call', () => {
  it('that a rule allows is started and settled', () => {
    expect(play(started, completed)).toMatchObject({ phase: 'settled', idempotencyKey: 'key-1' });
    expect(play(started, failed)).toMatchObject({ phase: 'settled' });
  });

  it('that a rule denies is settled without having started', () => {
    expect(play(denied)).toEqual({ ...called, phase: 'settled' });
  });

  it('that does not fit its tool is settled as an error at once', () => {
    expect(play(failed)).toEqual({ ...called, phase: 'settled' });
  });

  it('remembers the approval that asks about it, without any answer', () => {
    expect(play(requested())).toEqual({
      ...called,
      // What is shown is what will run.
      input: {},
      phase: 'asking',
      approval: {
        id: 'approval_1',
        seq: 8,
        kind: 'permission',
        digest: 'digest of approval_1',
        expiresAt: '2026-03-02T10:00:00Z',
      },
    });
  });

  it('that a person approved may start', () => {
    expect(play(requested(), decided(true))).toMatchObject({
      phase: 'decided',
      approval: { id: 'approval_1', approved: true },
    });
    expect(play(requested(), decided(true), started, completed)).toMatchObject({
      phase: 'settled',
    });
  });

  it('that a person refused is denied, and shows no approval', () => {
    expect(play(requested(), decided(false))).toMatchObject({ approval: { approved: false } });
    expect(play(requested(), decided(false), denied)).toMatchObject({ phase: 'settled' });
  });

  it.each([
    ['expired', expired],
    ['closed', closed],
  ])('whose approval was %s is never approved by that', (_how, end) => {
    const call = play(requested(), end);
    expect(call).toMatchObject({ phase: 'decided' });
    expect(call).not.toHaveProperty('relay.approved');
  });

  it('that was approved with other arguments is from then on what was approved', () => {
    const edited = { ...decided(true), input: { b: 2 }, digest: 'digest of b' } as CallEvent;
    const call = play(requested(), edited);
    expect(call).toMatchObject({
      phase: 'decided',
      input: { b: 2 },
      approval: { approved: true, digest: 'digest of b' },
    });
    expect(play(requested(), decided(true))).toMatchObject({
      input: {},
      approval: { digest: 'digest of approval_1' },
    });
  });

  it('may ask while it runs, stays started, and keeps the answers in order', () => {
    const schema = { type: 'string' };
    const asks = (nth: number, approvalId: string): CallEvent => ({
      ...(requested(approvalId) as EventOf<'approval.requested'>),
      kind: 'question',
      question: { nth, prompt: 'Well?', schema },
    });
    const reply = (approvalId: string, answer: string): CallEvent => ({
      ...(decided(true, approvalId) as EventOf<'approval.decided'>),
      answer,
    });
    const [one, two] = [asks(1, 'q1'), asks(2, 'q2')];
    expect(play(started, one, two, reply('q2', 'b'), reply('q1', 'a'), started)).toMatchObject({
      phase: 'started',
      questions: [
        { id: 'q1', state: 'answered', answer: 'a' },
        { id: 'q2', state: 'answered', answer: 'b' },
      ],
    });
    const no = { ...(decided(false, 'q1') as EventOf<'approval.decided'>), reason: 'No' };
    expect(play(started, one, no)).toMatchObject({
      questions: [{ state: 'declined', reason: 'No' }],
    });
    expect(
      play(started, one, { ...expired, approvalId: 'q1' } as CallEvent, completed),
    ).toMatchObject({
      phase: 'settled',
    });
    expect(play(started, one, completed)).toBe('refused tool.completed');
    expect(play(started, one, requested('approval_2', 'outcome'))).toBe(
      'refused approval.requested',
    );
    expect(play(started, two)).toBe('refused approval.requested');
    expect(play(one)).toBe('refused approval.requested');
    expect(play(started, one, reply('q1', 'a'), reply('q1', 'b'))).toBe('refused approval.decided');
  });

  it('takes one answer: a second one is refused', () => {
    expect(play(requested(), decided(false), decided(true))).toBe('refused approval.decided');
    expect(play(requested(), expired, decided(true))).toBe('refused approval.decided');
  });

  it('with an unknown outcome starts again, or asks a person once more', () => {
    expect(play(started, started, completed)).toMatchObject({ phase: 'settled' });
    expect(play(started, requested('approval_2', 'outcome'))).toMatchObject({
      phase: 'asking',
      approval: { id: 'approval_2', kind: 'outcome' },
      idempotencyKey: 'key-1',
    });
  });

  it('does not carry an approval over to the approval that asks about its outcome', () => {
    const call = play(requested(), decided(true), started, requested('approval_2', 'outcome'));
    expect(call).toMatchObject({ phase: 'asking', approval: { id: 'approval_2' } });
    expect(call).not.toHaveProperty('relay.approved');
  });

  it('stores at its start what settles it, unless it is the tool itself', () => {
    expect(play(started)).not.toHaveProperty('via');
    for (const via of ['agent', 'handoff'] as const) {
      expect(play({ ...started, via })).toMatchObject({ phase: 'started', via });
      expect(play({ ...started, via }, completed)).toMatchObject({ phase: 'settled', via });
    }
  });

  it('is from its start what is executed, and from its approval what is shown', () => {
    const exact = { ...started, input: { command: 'ls' } };
    expect(play(exact)).toMatchObject({ input: { command: 'ls' } });
    const shown = { ...requested(), params: { command: 'pwd' } } as CallEvent;
    expect(play(shown)).toMatchObject({ input: { command: 'pwd' } });
  });

  it('is not answered by a decision about another approval', () => {
    expect(play(requested('approval_1'), decided(true, 'approval_2'))).toBe(
      'refused approval.decided',
    );
  });
});
