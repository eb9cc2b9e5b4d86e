import { deliveryStatuses, type SessionEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import {
  changedDelivery,
  decideDelivery,
  deliveryAccepted,
  type DeliveryInput,
  type DeliveryInputName,
  deliveryInputs,
  type DeliveryPhase,
  deliveryPhases,
  deliveryRefused,
  type DeliveryState,
  deliveryTable,
  isFinalDelivery,
  phaseOf,
} from '../../src/sessions/delivery-machine.ts';

const time = '2026-03-01T10:00:00.000Z';
const now = Date.parse(time);
const later = now + 300_000;
const of = { deliveryId: 'd1', messageId: 'm1' };

const examples: Record<DeliveryInputName, DeliveryInput> = {
  send: { type: 'send', streamId: 's1' },
  deliver: { type: 'deliver' },
  consume: { type: 'consume' },
  defer: { type: 'defer', now, reason: 'tool running' },
  fail: { type: 'fail', reason: 'cannot read it', retryable: false },
  expire: { type: 'expire' },
  withdraw: { type: 'withdraw' },
  release: { type: 'release', reason: 'released' },
  redeliver: { type: 'redeliver' },
};

function inPhase(phase: DeliveryPhase): DeliveryState {
  return {
    id: 'd1',
    messageId: 'm1',
    mode: 'on-idle',
    status: phase === 'unobserved' ? 'delivered' : phase,
    reason: null,
    availableAt: null,
    attempts: 0,
    streamId: null,
    isObservable: phase !== 'unobserved',
  };
}

function accepted(delivery: DeliveryState, input: DeliveryInput) {
  const decision = decideDelivery(delivery, input);
  if (decision.kind !== 'accepted') throw new Error(`${input.type} is ${decision.kind}`);
  return { ...decision, state: changedDelivery(delivery, decision.change) };
}

function eventsOf(phase: DeliveryPhase, input: DeliveryInput): readonly SessionEvent[] {
  return accepted(inPhase(phase), input).events;
}

describe('the table of a delivery', () => {
  it('is total: every phase says what each input makes of it', () => {
    expect(Object.keys(deliveryTable)).toEqual([...deliveryPhases]);
    for (const phase of deliveryPhases) {
      expect(Object.keys(deliveryTable[phase]).toSorted()).toEqual(deliveryInputs.toSorted());
    }
    expect(new Set(deliveryPhases.map((phase) => inPhase(phase).status))).toEqual(
      new Set(deliveryStatuses),
    );
  });

  it('is what decisions follow, cell by cell', () => {
    for (const phase of deliveryPhases) {
      for (const name of deliveryInputs) {
        const decision = decideDelivery(inPhase(phase), examples[name]);
        const next =
          decision.kind === 'accepted'
            ? phaseOf(changedDelivery(inPhase(phase), decision.change))
            : decision.kind;
        expect(next, `${phase} ${name}`).toBe(deliveryTable[phase][name]);
      }
    }
  });

  it('has after a final phase only repeats, sweeps that find nothing, and a redelivery', () => {
    for (const phase of ['unobserved', 'consumed', 'failed'] as const) {
      expect(isFinalDelivery(inPhase(phase))).toBe(true);
      for (const name of deliveryInputs) {
        const isRedelivery = phase === 'failed' && name === 'redeliver';
        const { kind } = decideDelivery(inPhase(phase), examples[name]);
        expect(kind === 'accepted', `${phase} ${name}`).toBe(isRedelivery);
      }
    }
    for (const phase of ['accepted', 'deferred', 'delivered'] as const) {
      expect(isFinalDelivery(inPhase(phase))).toBe(false);
    }
  });

  it('refuses another receipt after a final one, with a reason', () => {
    expect(decideDelivery(inPhase('consumed'), examples.fail)).toEqual({
      kind: 'refused',
      reason: 'A delivery that is consumed cannot fail',
    });
    expect(decideDelivery(inPhase('failed'), examples.consume).kind).toBe('refused');
    expect(decideDelivery(inPhase('unobserved'), examples.consume).kind).toBe('refused');
  });
});

describe('the change of a delivery', () => {
  it('is a compare-and-set on its status, which says what is stored with it', () => {
    const changeOf = (phase: DeliveryPhase, input: DeliveryInput, isObservable = true) =>
      accepted({ ...inPhase(phase), isObservable }, input).change;
    const id = 'd1';
    expect(changeOf('deferred', examples.deliver)).toStrictEqual({
      id,
      from: ['deferred'],
      to: 'delivered',
      isFinal: false,
    });
    expect(changeOf('accepted', examples.deliver, false)).toMatchObject({ isFinal: true });
    expect(changeOf('delivered', { type: 'consume', fidelity: 'inferred' })).toStrictEqual({
      id,
      from: ['delivered'],
      to: 'consumed',
      inferred: true,
    });
    expect(changeOf('accepted', examples.defer)).toStrictEqual({
      id,
      from: ['accepted'],
      to: 'deferred',
      availableAt: now,
      reason: 'tool running',
      streamId: null,
    });
    expect(changeOf('delivered', examples.fail)).toStrictEqual({
      id,
      from: ['delivered'],
      to: 'failed',
      reason: 'cannot read it',
      retryable: false,
    });
  });

  it('keeps the reason of a deferral while it is sent again', () => {
    const { state } = accepted(inPhase('accepted'), examples.defer);
    expect(accepted(state, examples.send).state).toEqual({ ...state, attempts: 1, streamId: 's1' });
  });

  it('of one that is sent or withdrawn is also a compare-and-set on its attempts', () => {
    const sent = { ...inPhase('accepted'), attempts: 2 };
    expect(accepted(sent, examples.send).change).toMatchObject({
      ifAttempts: 2,
      isAttempt: true,
      streamId: 's1',
    });
    expect(accepted(inPhase('accepted'), examples.withdraw).change).toMatchObject({
      ifAttempts: 0,
    });
    expect(decideDelivery(sent, examples.withdraw)).toEqual({
      kind: 'refused',
      reason: 'A delivery that is handed over cannot withdraw',
    });
  });
});

describe('the events of a delivery', () => {
  it('are one for each state', () => {
    expect(deliveryAccepted({ id: 'd1', messageId: 'm1' })).toEqual({
      type: 'delivery.accepted',
      ...of,
    });
    expect(eventsOf('accepted', examples.deliver)).toEqual([{ type: 'delivery.delivered', ...of }]);
    expect(eventsOf('delivered', examples.consume)).toEqual([{ type: 'message.received', ...of }]);
    expect(eventsOf('accepted', examples.defer)).toEqual([
      { type: 'delivery.deferred', ...of, availableAt: time, reason: 'tool running' },
    ]);
    expect(eventsOf('delivered', examples.fail)).toEqual([
      { type: 'delivery.failed', ...of, reason: 'cannot read it', retryable: false },
    ]);
  });

  it('show that what is consumed was delivered, also if one receipt says both', () => {
    expect(eventsOf('deferred', { type: 'consume', fidelity: 'inferred' })).toEqual([
      { type: 'delivery.delivered', ...of, fidelity: 'inferred' },
      { type: 'message.received', ...of, fidelity: 'inferred' },
    ]);
  });

  it.each([
    ['expire', { reason: 'expired', retryable: true }],
    ['withdraw', { reason: 'withdrawn' }],
    ['release', { reason: 'released' }],
  ] as const)('name the reason of a failure: %s', (name, failure) => {
    const { events, state } = accepted(inPhase('deferred'), examples[name]);
    expect(events).toEqual([{ type: 'delivery.failed', ...of, ...failure }]);
    expect(state).toMatchObject({ status: 'failed', reason: failure.reason });
  });

  it('are one failure for a message that the session cannot take', () => {
    expect(deliveryRefused({ id: 'd1', messageId: 'm1' }, 'capability_missing')).toEqual({
      type: 'delivery.failed',
      ...of,
      reason: 'capability_missing',
    });
  });
});

describe('a deferral', () => {
  it('is repeated without an event, and replaced by another one', () => {
    const { state } = accepted(inPhase('accepted'), {
      type: 'defer',
      now,
      reason: 'tool running',
      availableAt: later,
    });
    for (const availableAt of [undefined, later]) {
      const repeat = { type: 'defer', now, reason: 'tool running' } as const;
      const input = availableAt === undefined ? repeat : { ...repeat, availableAt };
      expect(decideDelivery(state, input)).toEqual({ kind: 'same' });
    }
    expect(decideDelivery(state, { type: 'defer', now, reason: 'paused' }).kind).toBe('accepted');
    const sooner = { type: 'defer', now, reason: 'tool running', availableAt: now } as const;
    expect(accepted(state, sooner).state.availableAt).toBe(now);
  });

  it('of a message that was sent again since is another one, and may say when to try again', () => {
    const { state } = accepted(inPhase('accepted'), examples.defer);
    const sent = accepted(state, examples.send).state;
    const { state: again } = accepted(sent, {
      type: 'defer',
      now,
      reason: 'tool running',
      retryAfterMs: 5_000,
    });
    expect(again).toEqual({ ...sent, availableAt: now + 5_000, streamId: null });
    expect(decideDelivery(again, examples.defer)).toEqual({ kind: 'same' });
  });

  it('of a message that waits for a flush changes nothing, unless it is the flush', () => {
    const held = { ...inPhase('accepted'), mode: 'manual' } as const;
    expect(decideDelivery(held, examples.defer)).toEqual({ kind: 'same' });
    const flush = { type: 'defer', now, reason: 'flushed', isFlush: true } as const;
    const { state } = accepted(held, flush);
    expect(state).toMatchObject({ status: 'deferred', reason: 'flushed' });
    expect(accepted(accepted(state, examples.send).state, examples.defer).state).toMatchObject({
      status: 'deferred',
      reason: 'tool running',
    });
  });

  it('is over with its reason once the message is handed over', () => {
    const { state } = accepted(inPhase('accepted'), examples.defer);
    expect(accepted(state, examples.deliver).state).toStrictEqual(inPhase('delivered'));
  });
});

describe('a delivery that is sent', () => {
  it('counts its attempts and waits for the receipt', () => {
    const once = accepted(inPhase('accepted'), examples.send);
    expect(once.events).toEqual([]);
    expect(once.state).toEqual({ ...inPhase('accepted'), attempts: 1, streamId: 's1' });
    expect(once.change.isRequeued).toBeUndefined();
    const delivered = accepted(once.state, examples.deliver).state;
    expect(accepted(delivered, examples.send).state).toEqual({ ...delivered, attempts: 2 });
  });

  it('keeps its attempts when it is redelivered after a failure, and nothing of the failure', () => {
    const { state } = accepted({ ...inPhase('accepted'), attempts: 3 }, examples.fail);
    const again = accepted(state, examples.redeliver);
    expect(again.state).toStrictEqual({ ...inPhase('accepted'), attempts: 3 });
    expect(again.events).toEqual([{ type: 'delivery.accepted', ...of }]);
    expect(again.change.isRequeued).toBe(true);
  });
});
