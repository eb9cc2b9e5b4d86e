/**
 * The machine of one tool call.
 *
 *   called ──raise──▶ asking ──answer──▶ answered ──start──▶ started ──settle──▶ settled
 *      └──────────────start / settle─────────┴────────settle────────┘
 *
 * - `warn` says once that a relay is about to expire; it changes nothing else.
 * - A call that a rule allows or refuses goes straight from `called`.
 * - A crash after `started` leaves the outcome unknown: the call starts again (idempotent tools) or
 *   asks a person (`raise` once more).
 * - A call that was approved and leads elsewhere by now is asked about once more.
 * - `settled` is final (E6). The table is total: whatever it does not list is refused.
 */
import type { EventOf } from '@relay/protocol';

export const callPhases = ['called', 'asking', 'answered', 'started', 'settled'] as const;
export type CallPhase = (typeof callPhases)[number];

export const callSteps = ['raise', 'warn', 'answer', 'start', 'settle', 'deny'] as const;
export type CallStep = (typeof callSteps)[number];

export const callTable: Record<CallPhase, Record<CallStep, CallPhase | 'refused'>> = {
  called: {
    raise: 'asking',
    warn: 'refused',
    answer: 'refused',
    start: 'started',
    settle: 'settled',
    deny: 'settled',
  },
  asking: {
    raise: 'refused',
    warn: 'asking',
    answer: 'answered',
    start: 'refused',
    settle: 'refused',
    deny: 'refused',
  },
  answered: {
    raise: 'asking',
    warn: 'refused',
    answer: 'refused',
    start: 'started',
    settle: 'settled',
    deny: 'settled',
  },
  started: {
    raise: 'asking',
    warn: 'refused',
    answer: 'refused',
    start: 'started',
    settle: 'settled',
    deny: 'refused',
  },
  settled: {
    raise: 'refused',
    warn: 'refused',
    answer: 'refused',
    start: 'refused',
    settle: 'refused',
    deny: 'refused',
  },
};

export type CallEvent =
  | EventOf<'tool.started'>
  | EventOf<'tool.completed'>
  | EventOf<'tool.failed'>
  | EventOf<'tool.denied'>
  | EventOf<'relay.raised'>
  | EventOf<'relay.expiring'>
  | EventOf<'relay.decided'>
  | EventOf<'relay.expired'>
  | EventOf<'relay.closed'>;

export const stepOf: Record<CallEvent['type'], CallStep> = {
  'tool.started': 'start',
  'tool.completed': 'settle',
  'tool.failed': 'settle',
  'tool.denied': 'deny',
  'relay.raised': 'raise',
  'relay.expiring': 'warn',
  'relay.decided': 'answer',
  'relay.expired': 'answer',
  'relay.closed': 'answer',
};

export interface OpenRelay {
  readonly id: string;
  readonly kind: EventOf<'relay.raised'>['kind'];
  readonly digest: string;
  readonly expiresAt: string;
  /** Until it was warned of. */
  readonly warnsAt?: string;
  readonly approved?: boolean;
}

/** Something that the tool has asked while it runs. */
export interface QuestionState extends OpenRelay {
  readonly state: 'open' | 'answered' | 'declined';
  readonly answer?: unknown;
  readonly reason?: string;
}

/** One call of the turn that is going on. */
export interface CallState {
  readonly toolCallId: string;
  readonly name: string;
  readonly input: unknown;
  readonly phase: CallPhase;
  readonly relay?: OpenRelay;
  /** By their place; an answer stays for another attempt at the call. */
  readonly questions?: readonly QuestionState[];
  readonly idempotencyKey?: string;
  /** Where its path parameters lead, as it was shown or started. */
  readonly located?: Readonly<Record<string, string>>;
  /** What brings the result, where it is not the tool's own code. */
  readonly via?: 'agent' | 'handoff' | 'client';
  /** Until when a client may bring the result. */
  readonly resultBy?: string;
}

/** The call after an event, or undefined if the table refuses it. */
export function evolveCall(call: CallState, event: CallEvent): CallState | undefined {
  if (isOfQuestion(call, event)) return evolveQuestion(call, event as RelayEvent);
  const phase = callTable[call.phase][stepOf[event.type]];
  if (phase === 'refused' || answersAnother(call, event)) return undefined;
  // Nothing that was asked may be left open by the end of its call (E6), or by doubt about it.
  if (phase !== 'started' && call.questions?.some(({ state }) => state === 'open') === true) {
    return undefined;
  }
  const next = { ...call, phase };
  // From here on the call is what was executed, or shown: nothing else can be approved.
  if (event.type === 'tool.started') {
    const { input, idempotencyKey, via, resultBy, located } = event;
    return {
      ...next,
      input,
      ...(located === undefined ? {} : { located }),
      idempotencyKey,
      ...(via === undefined ? {} : { via }),
      ...(resultBy === undefined ? {} : { resultBy }),
    };
  }
  if (event.type === 'relay.decided' && call.relay !== undefined) {
    const { approved, input = call.input, digest = call.relay.digest } = event;
    const located = event.input === undefined ? call.located : event.located;
    return withLocated({ ...next, input, relay: { ...call.relay, approved, digest } }, located);
  }
  if (event.type === 'relay.expiring') return warned(next);
  if (event.type !== 'relay.raised') return next;
  const { relayId: id, kind, digest, expiresAt, warnsAt, params: input } = event;
  const warning = warnsAt === undefined ? {} : { warnsAt };
  const relay = { id, kind, digest, expiresAt, ...warning };
  return withLocated({ ...next, input, relay }, event.located);
}

function withLocated(call: CallState, located: CallState['located']): CallState {
  const { located: _, ...rest } = call;
  return located === undefined ? rest : { ...rest, located };
}

type RelayEvent = Extract<CallEvent, { relayId: string; type: `relay.${string}` }>;

function isOfQuestion(call: CallState, event: CallEvent): boolean {
  if (event.type === 'relay.raised') return event.kind === 'question';
  if (!event.type.startsWith('relay.')) return false;
  return call.questions?.some(({ id }) => id === (event as RelayEvent).relayId) ?? false;
}

/** A call that has started stays so, whatever it asks and is answered. */
function evolveQuestion(call: CallState, event: RelayEvent): CallState | undefined {
  const { questions = [] } = call;
  if (call.phase !== 'started') return undefined;
  if (event.type === 'relay.raised') {
    if (event.question?.nth !== questions.length + 1) return undefined;
    const { relayId: id, kind, digest, expiresAt, warnsAt } = event;
    const warning = warnsAt === undefined ? {} : { warnsAt };
    const asked = { id, kind, digest, expiresAt, ...warning, state: 'open' } as const;
    return { ...call, questions: [...questions, asked] };
  }
  const index = questions.findIndex(({ id }) => id === event.relayId);
  const next = answered(questions[index], event);
  return next === undefined ? undefined : { ...call, questions: questions.with(index, next) };
}

function answered(
  question: QuestionState | undefined,
  event: Exclude<RelayEvent, { type: 'relay.raised' }>,
): QuestionState | undefined {
  if (question?.state !== 'open') return undefined;
  const { warnsAt, ...asked } = question;
  switch (event.type) {
    case 'relay.expiring':
      return warnsAt === undefined ? undefined : asked;
    case 'relay.decided': {
      const { approved, answer, reason } = event;
      if (approved) return { ...asked, state: 'answered', approved, answer };
      return { ...asked, state: 'declined', approved, ...(reason === undefined ? {} : { reason }) };
    }
    case 'relay.expired':
      return { ...asked, state: 'declined', reason: 'Nobody answered in time' };
    case 'relay.closed':
      return { ...asked, state: 'declined', reason: event.reason };
  }
}

/** Once, and only if it was planned. */
function warned(call: CallState): CallState | undefined {
  if (call.relay?.warnsAt === undefined) return undefined;
  const { warnsAt: _, ...relay } = call.relay;
  return { ...call, relay };
}

/** A decision counts for its own relay alone (E7). */
function answersAnother(call: CallState, event: CallEvent): boolean {
  switch (event.type) {
    case 'relay.expiring':
    case 'relay.decided':
    case 'relay.expired':
    case 'relay.closed':
      return event.relayId !== call.relay?.id;
    default:
      return false;
  }
}
