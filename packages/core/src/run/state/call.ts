/**
 * The state machine of one tool call.
 *
 *   called ──request──▶ asking ──decide──▶ decided ──start──▶ started ──settle──▶ settled
 *      └───────────────start / settle─────────┴────────settle────────┘
 *
 * - `warn` announces once that an approval is about to expire; the phase stays the same.
 * - A call that a rule allows or denies goes straight from `called`.
 * - A crash after `started` leaves the outcome unknown: the call starts again (idempotent tools), or
 *   another approval is requested.
 * - An approved call whose paths have changed needs another approval.
 * - `settled` is final (E6). The table is total: every other step is refused.
 */
import { defined, type EventOf, type Preview, type Stored } from '@relay/protocol';
import type { AllowedBy } from '../../ports/index.ts';
import { agentFields, type AgentState } from './agent.ts';

export const callPhases = ['called', 'asking', 'decided', 'started', 'settled'] as const;
export type CallPhase = (typeof callPhases)[number];

export const callSteps = ['request', 'warn', 'decide', 'start', 'settle', 'deny'] as const;
export type CallStep = (typeof callSteps)[number];

const allRefused = {
  request: 'refused',
  warn: 'refused',
  decide: 'refused',
  start: 'refused',
  settle: 'refused',
  deny: 'refused',
} as const;

const beforeStart = {
  ...allRefused,
  request: 'asking',
  start: 'started',
  settle: 'settled',
  deny: 'settled',
} as const;

export const callTable: Record<CallPhase, Record<CallStep, CallPhase | 'refused'>> = {
  called: beforeStart,
  asking: { ...allRefused, warn: 'asking', decide: 'decided' },
  decided: beforeStart,
  started: { ...allRefused, request: 'asking', start: 'started', settle: 'settled' },
  settled: allRefused,
};

export const stepOf = {
  'tool.started': 'start',
  'tool.completed': 'settle',
  'tool.failed': 'settle',
  'tool.denied': 'deny',
  'approval.requested': 'request',
  'approval.expiring': 'warn',
  'approval.decided': 'decide',
  'approval.expired': 'decide',
  'approval.closed': 'decide',
} as const satisfies Readonly<Record<string, CallStep>>;

export type CallEvent = EventOf<keyof typeof stepOf>;

export interface OpenApproval {
  readonly id: string;
  /** Of the event that requested it. */
  readonly seq: number;
  readonly kind: EventOf<'approval.requested'>['kind'];
  readonly digest: string;
  /** Of the tool, as it was when the approval was requested. */
  readonly definitionDigest?: string;
  readonly expiresAt: string;
  /** When to warn of its expiry; absent after the warning. */
  readonly warnsAt?: string;
  readonly approved?: boolean;
}

/** The stored reason of an approval that expired. */
export const expiryReason = 'The approval expired without a decision';

/** A question that the tool has asked while it runs. */
export interface QuestionState extends OpenApproval {
  /** `closed`: its tool was interrupted. Another attempt asks again. */
  readonly state: 'open' | 'answered' | 'declined' | 'closed';
  readonly answer?: unknown;
  readonly reason?: string;
}

/** One call of the open turn. */
export interface CallState {
  readonly toolCallId: string;
  readonly name: string;
  readonly input: unknown;
  readonly phase: CallPhase;
  readonly approval?: OpenApproval;
  /** In the order in which they were asked; answers stay for later attempts at the call. */
  readonly questions?: readonly QuestionState[];
  readonly idempotencyKey?: string;
  /** What allowed its first attempt; a later one does not change it. */
  readonly allowedBy?: AllowedBy;
  /** Its resolved path parameters, as shown to approvers or as started. */
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  /** What approvers were shown of it besides its arguments. */
  readonly preview?: Preview;
  /** What settles the call, where it is not the tool's own code. */
  readonly via?: 'agent' | 'handoff' | 'client';
  /** Until when a client may post the result. */
  readonly resultBy?: string;
}

export function openQuestionsOf(call: CallState): QuestionState[] {
  return call.questions?.filter(({ state }) => state === 'open') ?? [];
}

/** The call after an event, or undefined if the table refuses it. */
export function evolveCall(call: CallState, event: Stored<CallEvent>): CallState | undefined {
  if (isOfQuestion(call, event)) return evolveQuestion(call, event as Stored<ApprovalEvent>);
  const phase = callTable[call.phase][stepOf[event.type]];
  if (phase === 'refused' || answersAnother(call, event)) return undefined;
  // No question stays open when its call ends (E6) or has an unknown outcome.
  if (phase !== 'started' && openQuestionsOf(call).length > 0) return undefined;
  const next = { ...call, phase };
  // The call takes on what was executed or shown: nothing else can be approved.
  if (event.type === 'tool.started') {
    const { input, idempotencyKey, via, resultBy, resolvedPaths } = event;
    const allowedBy = call.allowedBy ?? (event.approvalId === undefined ? 'rule' : 'person');
    const details = defined({ resolvedPaths, via, resultBy });
    return { ...next, input, idempotencyKey, allowedBy, ...details };
  }
  if (event.type === 'approval.decided' && call.approval !== undefined) {
    const { approved, input = call.input, digest = call.approval.digest } = event;
    const approval = { ...call.approval, approved, digest };
    return asShown({ ...next, input, approval }, event.input === undefined ? call : event);
  }
  if (event.type === 'approval.expiring') return warned(next);
  if (event.type !== 'approval.requested') return next;
  return asShown({ ...next, input: event.params, approval: openApproval(event) }, event);
}

function openApproval(event: Stored<EventOf<'approval.requested'>>): OpenApproval {
  const { approvalId: id, seq, kind, digest, expiresAt, warnsAt, definitionDigest } = event;
  return { id, seq, kind, digest, expiresAt, ...defined({ warnsAt, definitionDigest }) };
}

function asShown(
  call: CallState,
  { resolvedPaths, preview }: Pick<EventOf<'approval.requested'>, 'resolvedPaths' | 'preview'>,
): CallState {
  const { resolvedPaths: _, preview: __, ...rest } = call;
  return { ...rest, ...defined({ resolvedPaths, preview }) };
}

type ApprovalEvent = Extract<CallEvent, { approvalId: string; type: `approval.${string}` }>;

function isOfQuestion(call: CallState, event: CallEvent): boolean {
  if (event.type === 'approval.requested') return event.kind === 'question';
  if (!event.type.startsWith('approval.')) return false;
  return call.questions?.some(({ id }) => id === (event as ApprovalEvent).approvalId) ?? false;
}

/** Questions do not change the phase of their call: it stays `started`. */
function evolveQuestion(call: CallState, event: Stored<ApprovalEvent>): CallState | undefined {
  const { questions = [] } = call;
  if (call.phase !== 'started') return undefined;
  if (event.type === 'approval.requested') {
    const asked = { ...openApproval(event), state: 'open' } as const;
    const { nth = 0 } = event.question ?? {};
    if (nth === questions.length + 1) return { ...call, questions: [...questions, asked] };
    if (questions[nth - 1]?.state !== 'closed') return undefined;
    return { ...call, questions: questions.with(nth - 1, asked) };
  }
  const index = questions.findIndex(({ id }) => id === event.approvalId);
  const next = answered(questions[index], event);
  return next === undefined ? undefined : { ...call, questions: questions.with(index, next) };
}

function answered(
  question: QuestionState | undefined,
  event: Exclude<ApprovalEvent, { type: 'approval.requested' }>,
): QuestionState | undefined {
  if (question?.state !== 'open') return undefined;
  const { warnsAt, ...asked } = question;
  switch (event.type) {
    case 'approval.expiring':
      return warnsAt === undefined ? undefined : asked;
    case 'approval.decided': {
      const { approved, answer, reason } = event;
      if (approved) return { ...asked, state: 'answered', approved, answer };
      return { ...asked, state: 'declined', approved, ...defined({ reason }) };
    }
    case 'approval.expired':
      return { ...asked, state: 'declined', reason: expiryReason };
    case 'approval.closed':
      return { ...asked, state: 'closed', reason: event.reason };
  }
}

/** Undefined if there was a warning already. */
function warned(call: CallState): CallState | undefined {
  if (call.approval?.warnsAt === undefined) return undefined;
  const { warnsAt: _, ...approval } = call.approval;
  return { ...call, approval };
}

/** A decision counts for its own approval only (E7). */
function answersAnother(call: CallState, event: CallEvent): boolean {
  switch (event.type) {
    case 'approval.expiring':
    case 'approval.decided':
    case 'approval.expired':
    case 'approval.closed':
      return event.approvalId !== call.approval?.id;
    default:
      return false;
  }
}

/* The events that settle a call. Every call gets exactly one of them (E6). */

type Agent = Pick<AgentState, 'id' | 'parentId'>;
type Call = Pick<CallState, 'toolCallId' | 'name'>;
type Details<Type extends 'tool.completed' | 'tool.failed' | 'tool.denied'> = Omit<
  EventOf<Type>,
  'type' | 'agentId' | 'parentId' | 'toolCallId' | 'name'
>;

/** The fields by which an event names its call. */
export function callFields(agent: Agent, { toolCallId, name }: Call) {
  return { ...agentFields(agent), toolCallId, name };
}

export function toolCompleted(
  agent: Agent,
  call: Call,
  details: Details<'tool.completed'>,
): EventOf<'tool.completed'> {
  return { type: 'tool.completed', ...callFields(agent, call), ...details };
}

/** Why a call has no result, where its tool has begun: a side effect must not be hidden. */
export function stoppedText(reason: string): string {
  return `${reason}; the call had begun and may have taken effect, or may still do so`;
}

export function toolFailed(
  agent: Agent,
  call: Call,
  code: string,
  error: string,
  details: Omit<Details<'tool.failed'>, 'code' | 'error'> = {},
): EventOf<'tool.failed'> {
  return { type: 'tool.failed', ...callFields(agent, call), error, code, ...details };
}

export function toolDenied(
  agent: Agent,
  call: Call,
  details: Omit<Details<'tool.denied'>, 'status'> & Partial<Pick<Details<'tool.denied'>, 'status'>>,
): EventOf<'tool.denied'> {
  return { type: 'tool.denied', ...callFields(agent, call), status: 'denied', ...details };
}
