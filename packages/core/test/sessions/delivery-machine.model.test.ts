/**
 * Deliveries under random inputs: one delivery against a model of its fate, and a whole inbox of a session
 * that works, waits, pauses and gets lost. Both are checked afterwards by their events, as a journal.
 */
import { type DeliveryMode, deliveryModes, type SessionEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deepFreeze } from '../support/agent-events.ts';
import {
  changedDelivery,
  decideDelivery,
  deliveryAccepted,
  type DeliveryInput,
  type DeliveryState,
  isFinalDelivery,
} from '../../src/sessions/delivery-machine.ts';
import {
  type Boundary,
  defaultSafeStates,
  entering,
  isSafe,
  placementOf,
  type Situation,
} from '../../src/sessions/modes.ts';
import {
  decideSession,
  sessionCreated,
  type SessionInputName,
} from '../../src/sessions/session-machine.ts';
import { newSession, type SessionState, statusOf } from '../../src/sessions/state.ts';

const now = Date.parse('2026-03-01T10:00:00.000Z');
const later = now + 300_000;
const accepted = {
  status: 'accepted',
  reason: null,
  availableAt: null,
  attempts: 0,
  streamId: null,
} as const;

const inputs: readonly DeliveryInput[] = [
  { type: 'send', streamId: 's1' },
  { type: 'deliver' },
  { type: 'deliver', fidelity: 'inferred' },
  { type: 'consume' },
  { type: 'defer', now, reason: 'tool running' },
  { type: 'defer', now, reason: 'busy', availableAt: later },
  { type: 'fail', reason: 'cannot read it', retryable: true },
  { type: 'expire' },
  { type: 'withdraw' },
  { type: 'release', reason: 'released' },
  { type: 'redeliver' },
];

/** What the sender of a message would note down. */
interface Fate {
  end: 'consumed' | 'failed' | 'delivered' | undefined;
  isWithSession: boolean;
  /** Also one that was given back, or failed. */
  wasSent: boolean;
}

/** Whether the input changes the fate. */
function happens(fate: Fate, { type }: DeliveryInput, isObservable: boolean): boolean {
  if (fate.end !== undefined) {
    if (fate.end !== 'failed' || type !== 'redeliver') return false;
    Object.assign(fate, { end: undefined, isWithSession: false });
    return true;
  }
  switch (type) {
    case 'send':
      fate.wasSent = true;
      return true;
    case 'deliver':
      if (fate.isWithSession) return false;
      Object.assign(fate, { isWithSession: true, end: isObservable ? undefined : 'delivered' });
      return true;
    case 'consume':
      Object.assign(fate, { isWithSession: true, end: 'consumed' });
      return true;
    case 'defer':
      fate.isWithSession = false;
      return true;
    case 'withdraw':
      if (fate.isWithSession || fate.wasSent) return false;
      fate.end = 'failed';
      return true;
    case 'fail':
    case 'expire':
    case 'release':
      fate.end = 'failed';
      return true;
    case 'redeliver':
      return false;
  }
}

const endOf = {
  consumed: 'message.received',
  failed: 'delivery.failed',
  delivered: 'delivery.delivered',
} as const;

describe('a delivery', () => {
  it('ends once: consumed, failed, or delivered where consumption cannot be observed (E9)', () => {
    const ends = new Set<string>();
    const sequences = fc.array(fc.constantFrom(...inputs), { maxLength: 12 });
    fc.assert(
      fc.property(sequences, fc.boolean(), (all, isObservable) => {
        const fate: Fate = { end: undefined, isWithSession: false, wasSent: false };
        let delivery: DeliveryState = {
          id: 'd1',
          messageId: 'm1',
          mode: 'on-idle',
          ...accepted,
          isObservable,
        };
        let last: SessionEvent = deliveryAccepted(delivery);
        let sent = 0;
        for (const input of [...all, { type: 'release', reason: 'released' } as const]) {
          const decision = decideDelivery(deepFreeze(delivery), input);
          const isRepeat = input.type === 'defer' && decision.kind === 'same';
          const isExpected = happens(fate, input, isObservable);
          expect(decision.kind === 'accepted', input.type).toBe(isExpected && !isRepeat);
          if (decision.kind !== 'accepted') continue;
          delivery = changedDelivery(delivery, decision.change);
          last = decision.events.at(-1) ?? last;
          expect(isFinalDelivery(delivery)).toBe(fate.end !== undefined);
          if (fate.end !== undefined) {
            expect(delivery.status).toBe(fate.end);
            expect(last.type).toBe(endOf[fate.end]);
          }
          if (input.type === 'send') sent += 1;
          else expect(decideDelivery(delivery, input), input.type).toEqual({ kind: 'same' });
        }
        expect(isFinalDelivery(delivery)).toBe(true);
        expect(delivery.attempts).toBe(sent);
        ends.add(`${isObservable} ${delivery.status}`);
      }),
      { numRuns: 1000 },
    );
    expect([...ends].toSorted()).toEqual([
      'false consumed',
      'false delivered',
      'false failed',
      'true consumed',
      'true failed',
    ]);
  });
});

interface Entry {
  delivery: DeliveryState;
  readonly mode: DeliveryMode;
  position: number;
}

/** A native session with its inbox, driven by the machines and modes alone. */
class Inbox {
  readonly entries: Entry[] = [];
  readonly journal: SessionEvent[] = [...sessionCreated('s1')];
  /** What was handed over, in order: its position and mode, and what the session did. */
  readonly handed: { readonly position: number; readonly mode: DeliveryMode }[] = [];
  state: SessionState = newSession;
  isToolRunning = false;
  isApprovalOpen = false;

  get situation(): Situation {
    const { isToolRunning, isApprovalOpen } = this;
    return { parts: this.state, safeStates: defaultSafeStates, isToolRunning, isApprovalOpen };
  }

  is(type: SessionInputName): boolean {
    const decision = decideSession(this.state, { type, sessionId: 's1' });
    if (decision.kind !== 'accepted') return false;
    this.state = decision.state;
    this.journal.push(...decision.events);
    return true;
  }

  receive(mode: DeliveryMode): void {
    const number = this.entries.length + 1;
    const ids = { id: `d${number}`, messageId: `m${number}` };
    const delivery: DeliveryState = { ...ids, mode, ...accepted, isObservable: true };
    this.journal.push(deliveryAccepted(delivery));
    this.entries.push({ delivery, mode, position: this.journal.length });
  }

  decide(entry: Entry, input: DeliveryInput): boolean {
    const decision = decideDelivery(entry.delivery, input);
    if (decision.kind !== 'accepted') return false;
    entry.delivery = changedDelivery(entry.delivery, decision.change);
    this.journal.push(...decision.events);
    if (input.type === 'redeliver') entry.position = this.journal.length;
    return true;
  }

  enter(boundary: Boundary): boolean {
    const pending = this.entries.map((entry) => {
      const { mode, position, delivery } = entry;
      return { id: delivery.id, mode, position, status: delivery.status, entry };
    });
    const taken = entering(pending, boundary, now);
    for (const { entry } of taken) {
      expect(this.isToolRunning || this.isApprovalOpen).toBe(false);
      expect(['idle', 'active']).toContain(statusOf(this.state));
      expect(this.decide(entry, { type: 'deliver' })).toBe(true);
      this.handed.push({ position: entry.position, mode: entry.mode });
    }
    return taken.length > 0;
  }

  /** The first model call that reads them. */
  consume(): void {
    for (const entry of this.entries) {
      if (entry.delivery.status === 'delivered') this.decide(entry, { type: 'consume' });
    }
  }

  /** After each change: starts a turn, interrupts a model call, or says why a message waits. */
  dispatch(): void {
    for (const entry of this.entries) {
      const { mode, delivery } = entry;
      if (delivery.status !== 'accepted' && delivery.status !== 'deferred') continue;
      const placement = placementOf({ mode, status: delivery.status }, this.situation);
      if (placement.kind === 'deferred') {
        this.decide(entry, { type: 'defer', now, reason: placement.reason });
      } else if (placement.kind === 'now') {
        this.enter(isSafe(this.situation) ? 'idle' : 'model-call');
        this.is('work');
      }
    }
  }
}

interface Action {
  readonly name: string;
  readonly run: (inbox: Inbox, pick: number) => void;
}

const isCallingModel = (inbox: Inbox) =>
  statusOf(inbox.state) === 'active' &&
  inbox.state.lifecycle === 'open' &&
  !inbox.isToolRunning &&
  !inbox.isApprovalOpen;

const actions: readonly Action[] = [
  { name: 'receive', run: (inbox, pick) => inbox.receive(deliveryModes[pick % 5] ?? 'on-idle') },
  { name: 'receive', run: (inbox, pick) => inbox.receive(deliveryModes[pick % 5] ?? 'on-idle') },
  {
    name: 'call model',
    run: (inbox) => {
      if (!isCallingModel(inbox)) return;
      inbox.enter('model-call');
      inbox.consume();
    },
  },
  {
    name: 'start tool',
    run: (inbox) => {
      if (isCallingModel(inbox)) inbox.isToolRunning = true;
    },
  },
  {
    name: 'ask',
    run: (inbox) => {
      if (isCallingModel(inbox)) inbox.isApprovalOpen = inbox.is('wait');
    },
  },
  {
    name: 'decide',
    run: (inbox) => {
      if (!inbox.isApprovalOpen) return;
      Object.assign(inbox, { isApprovalOpen: false, isToolRunning: true });
      inbox.is('work');
    },
  },
  {
    name: 'finish tool',
    run: (inbox) => {
      if (!inbox.isToolRunning) return;
      inbox.isToolRunning = false;
      // A pause holds the model call back that would follow.
      if (inbox.state.lifecycle === 'pausing') inbox.is('hold');
      else if (isCallingModel(inbox)) inbox.enter('tool-results');
      inbox.consume();
    },
  },
  {
    name: 'end turn',
    run: (inbox) => {
      if (inbox.isToolRunning || inbox.isApprovalOpen) return;
      inbox.consume();
      inbox.is('settle');
    },
  },
  { name: 'pause', run: (inbox) => void inbox.is('pause') },
  { name: 'resume', run: (inbox) => void inbox.is('resume') },
  { name: 'lose', run: (inbox) => void inbox.is('lose') },
  { name: 'reach', run: (inbox) => void inbox.is('reach') },
  {
    name: 'flush',
    run: (inbox) => {
      for (const entry of inbox.entries) {
        if (entry.mode !== 'manual' || entry.delivery.status !== 'accepted') continue;
        inbox.decide(entry, { type: 'defer', now, reason: 'flushed', isFlush: true });
      }
    },
  },
  ...(['expire', 'withdraw', 'redeliver'] as const).map((type) => ({
    name: type,
    run: (inbox: Inbox, pick: number) => {
      const entry = inbox.entries[pick % Math.max(1, inbox.entries.length)];
      if (entry !== undefined) inbox.decide(entry, { type });
    },
  })),
];

describe('an inbox', () => {
  it('loses nothing, hands nothing over twice, and keeps the order of each mode', () => {
    const seen = new Set<string>();
    const step = fc.tuple(fc.constantFrom(...actions), fc.nat(1000));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
        const inbox = new Inbox();
        inbox.is('start');
        for (const [action, pick] of steps) {
          action.run(inbox, pick);
          inbox.dispatch();
        }
        for (const mode of deliveryModes) {
          const positions = inbox.handed
            .filter((each) => each.mode === mode)
            .map(({ position }) => position);
          expect(positions, mode).toEqual(positions.toSorted((one, other) => one - other));
          expect(new Set(positions).size, mode).toBe(positions.length);
        }
        // The end of the session ends what is left, and nothing else.
        inbox.is('release');
        for (const entry of inbox.entries) {
          const wasFinal = isFinalDelivery(entry.delivery);
          const isChanged = inbox.decide(entry, { type: 'release', reason: 'released' });
          expect(isChanged).toBe(!wasFinal);
          expect(isFinalDelivery(entry.delivery)).toBe(true);
        }
        inbox.is('finish');
        const of = (type: SessionEvent['type']) =>
          inbox.journal.filter((event) => event.type === type).length;
        expect(of('delivery.accepted')).toBe(of('message.received') + of('delivery.failed'));
        for (const { type } of inbox.journal) seen.add(type);
        for (const { mode } of inbox.handed) seen.add(mode);
        for (const event of inbox.journal) {
          if (event.type === 'delivery.deferred') seen.add(event.reason ?? '');
        }
      }),
      { numRuns: 1000 },
    );
    // The sequences were worth something: every mode was handed over, and every reason was given.
    for (const word of [...deliveryModes, 'tool running', 'approval open', 'paused', 'offline']) {
      expect(seen).toContain(word);
    }
  });
});
