/** Decides approvals. A decision is stored with its command, grant and notices before it is acknowledged. */
import {
  canonicalJson,
  type Decider,
  defined,
  type OutcomeAnswer,
  RelayError,
} from '@relay/protocol';
import {
  auditRecordsOf,
  auditOfDecision,
  auditOfGrant,
  auditOfRefusal,
  auditOfVote,
} from '../governance/audit.ts';
import type { RunControl } from './start-run.ts';
import { editedCall, isUnchanged, policiesFor, rejectIfDeniedByPolicy } from './edited-call.ts';
import type { Engine } from '../engine.ts';
import { findApprover, keyIdOf } from '../permission/approvers.ts';
import { grantFor, type GrantTerms } from '../permission/grants.ts';
import type { Policy } from '../permission/policy.ts';
import type {
  ApprovalRecord,
  ApprovalVotes,
  EditedCall,
  NewGrant,
  RunHead,
  TenantStore,
  Vote,
} from '../ports/index.ts';
import { noticeOfDecision, noticeOfVote } from '../governance/notifications.ts';
import { isObject } from '../run/arguments.ts';
import { checkAnswer } from '../run/waiting/questions.ts';
import { decideRequest } from './decide-request.ts';
import {
  countedVotes,
  demandsApprovers,
  mayDecide,
  notAnApprover,
  type Requirement,
  requirementFor,
} from './votes.ts';

export interface DecisionInput {
  readonly approvalId: string;
  /** One of `approved` and `outcome`; which one depends on the kind of the approval. */
  readonly approved?: boolean;
  readonly outcome?: OutcomeAnswer;
  readonly always: boolean;
  readonly reason: string | null;
  /** Changed arguments for the call, or the answer to a question. */
  readonly input?: unknown;
  /** With the outcome `completed`: the result of the call. */
  readonly output?: unknown;
  /** With `always`: the scope, duration and rule of the grant. */
  readonly terms?: GrantTerms;
  /** What the approver saw: the digest of the call, or of the changed call. */
  readonly digest?: string;
  readonly by: Decider;
  /** By the holder of a decision link, for the key `by`. */
  readonly byLink?: boolean;
}

export type DecisionOutcome =
  /** `voted`: it counts, and more approvers must agree. */
  | {
      readonly kind: 'decided' | 'voted' | 'duplicate' | 'conflict';
      readonly approval: ApprovalRecord;
    }
  | { readonly kind: 'missing' };

/**
 * Decides an approval (E7), or votes on it if more approvers must agree. The first decision counts, by
 * compare-and-set. Throws `not_an_approver` if the policy names others.
 */
export async function recordDecision(
  control: RunControl,
  tenantId: string,
  decision: DecisionInput,
): Promise<DecisionOutcome> {
  const store = control.engine.store.tenant(tenantId);
  let approval = await store.readApproval(decision.approvalId);
  if (approval === undefined) return { kind: 'missing' };
  const { runId } = approval;
  const run = runId === undefined ? undefined : await store.readRunHead(runId);
  if (runId !== undefined && run === undefined) return { kind: 'missing' };
  const answer = answerTo(approval, decision);
  while (approval.status === 'pending') {
    const stored = await storeAnswer(control, store, approval, run, { ...decision, ...answer });
    if (stored !== 'outdated') return { kind: stored, approval };
    const now: ApprovalRecord = (await store.readApproval(approval.id)) ?? approval;
    const isSame = now.status === 'pending' && now.ballot === approval.ballot;
    approval = now;
    // If another vote was stored meanwhile, this one is counted again. Otherwise it came too late.
    if (isSame) break;
  }
  const serialized = serializeDecision(approval, decision, answer, sentInput(approval, decision));
  return { kind: approval.answer === serialized ? 'duplicate' : 'conflict', approval };
}

/** The arguments of a repeated decision. Those who agreed to changed ones named them by their digest. */
function sentInput({ answer, edited }: ApprovalRecord, { input, digest }: DecisionInput): unknown {
  const agreed = input === undefined && digest !== undefined && digest === edited?.digest;
  return agreed && answer !== null ? (JSON.parse(answer) as { input?: unknown }).input : input;
}

/** What a decision says; `outcome` is set for an approval of that kind only. */
interface Answer {
  readonly approved: boolean;
  readonly outcome?: OutcomeAnswer;
}

type Decision = DecisionInput & Answer;

/** The fields that a decision may have depend on the kind of the approval; others are refused. */
export function answerTo(
  { kind, tool }: Pick<ApprovalRecord, 'kind' | 'tool'>,
  decision: Omit<DecisionInput, 'approvalId' | 'by'>,
): Answer {
  const { always, input, output, terms = {} } = decision;
  const answer = kind === 'outcome' ? outcomeOf(tool, decision) : approvedOf(decision);
  const [term] = Object.keys(terms);
  if (term !== undefined && kind !== 'permission') {
    throw invalidField(term, 'Allowed only for an approval of kind permission');
  }
  if (output !== undefined && kind !== 'outcome') {
    throw invalidField('output', 'Allowed only for an approval of kind outcome');
  }
  if (input !== undefined && kind === 'outcome') {
    throw invalidField('input', 'Not allowed for an approval of kind outcome');
  }
  if (kind === 'permission' && input !== undefined && !isObject(input)) {
    throw invalidField('input', 'Must be an object');
  }
  if (kind === 'question' && answer.approved && input === undefined) {
    throw invalidField('input', 'Required: the answer to the question');
  }
  if (kind !== 'permission' && always) {
    throw invalidField('always', `Not allowed for an approval of kind ${kind}`);
  }
  return answer;
}

function approvedOf({ approved, outcome }: Pick<DecisionInput, 'approved' | 'outcome'>): Answer {
  if (outcome !== undefined) {
    throw invalidField('outcome', 'Allowed only for an approval of kind outcome');
  }
  if (approved === undefined) throw invalidField('approved', 'Required');
  return { approved };
}

/** `approved: true` is no answer: a handler that approves everything must not run a tool twice. */
function outcomeOf(
  tool: string,
  { approved, outcome, output }: Pick<DecisionInput, 'approved' | 'outcome' | 'output'>,
): Answer {
  const answer = outcome ?? (approved === false ? 'failed' : undefined);
  if (answer === undefined || approved === true) {
    throw new RelayError(
      'outcome_answer_required',
      `${tool} was started before a crash or a stop of the server and may have taken effect. Answer with outcome: "rerun" (run it again), "completed" with its output (it took effect), or "failed" (it did not)`,
      { details: [{ path: 'outcome', message: 'Required: rerun, completed or failed' }] },
    );
  }
  if (answer === 'completed' && output === undefined) {
    throw invalidField('output', 'Required: the result of the completed call');
  }
  if (answer !== 'completed' && output !== undefined) {
    throw invalidField('output', 'Allowed only with outcome: completed');
  }
  return { approved: answer !== 'failed', outcome: answer };
}

function invalidField(path: string, message: string): RelayError {
  const text = `${path}: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
  return new RelayError('invalid_request', text, { details: [{ path, message }] });
}

/** The decision in canonical form, without its reason: equal texts are repetitions of one decision. */
function serializeDecision(
  approval: ApprovalRecord,
  { always, output, terms = {} }: DecisionInput,
  { approved, outcome }: Answer,
  input: unknown,
): string {
  if (outcome !== undefined) return canonicalJson(defined({ outcome, output }));
  const { scope = 'conversation', rule = 'exact', ...bounds } = terms;
  const ownTerms = defined({
    scope: scope === 'conversation' ? undefined : scope,
    rule: rule === 'exact' ? undefined : rule,
    ...bounds,
  });
  // Sending back the arguments that were shown is the same as sending none.
  const isEdited =
    input !== undefined && (approval.kind !== 'permission' || !isUnchanged(approval, input));
  return canonicalJson({
    approved,
    always,
    ...(Object.keys(ownTerms).length === 0 ? {} : { terms: ownTerms }),
    ...(isEdited ? { input } : {}),
  });
}

/** `outdated`: the approval has been decided, has expired, or has other votes meanwhile. */
type Stored = 'decided' | 'voted' | 'outdated';

/** Checks the answer, then stores it as a decision, or as a vote if more approvers must agree. */
async function storeAnswer(
  control: RunControl,
  store: TenantStore,
  approval: ApprovalRecord,
  run: RunHead | undefined,
  decision: Decision,
): Promise<Stored> {
  const { engine } = control;
  const { approved, always, by, terms = {} } = decision;
  const policies = await policiesFor(store, approval);
  const requirementOf = (edited: EditedCall | undefined) =>
    requirementFor(engine, store, approval, {
      policies,
      keyId: requesterOf(approval, run),
      edited,
    });
  // Before anything else about the call is checked, and again for a changed call.
  const asShown = await requirementOf(approval.votes?.edited);
  await refuseUnlessEntitled(engine, store, approval, asShown, decision);
  if (!approved) return storeDecision(control, store, { approval, run, decision }, {});
  if (always && approval.isConcrete === false) {
    throw invalidField('always', 'Not possible: what the call would do is not known');
  }
  const changed = await changedCall(engine, store, approval, decision, policies);
  const requirement = await requirementOf(changed.edited);
  await refuseUnlessEntitled(engine, store, approval, requirement, decision);
  const { rules, quorum } = requirement;
  const at = engine.clock.now();
  const grants = always && approval.kind === 'permission' && engine.rules === undefined;
  const approver =
    grants || rules.length > 0 ? await findApprover(store, keyIdOf(by), at) : undefined;
  const vote: Vote = {
    by,
    person: approver?.person ?? by.id,
    at,
    answer: serializeDecision(approval, decision, decision, undefined),
  };
  const isSameCall = digestOf(approval, changed.edited) === shownDigest(approval);
  const earlier = isSameCall ? (approval.votes?.votes ?? []) : [];
  const counted = await countedVotes(engine, store, requirement, earlier);
  const others = counted.filter((each) => each.approver.person !== vote.person);
  const agreeing = others.filter((each) => each.vote.answer === vote.answer);
  const decides = agreeing.length + 1 >= quorum;
  // Also made for a vote, so that terms that cannot be granted are refused at once.
  const grant =
    grants && approver !== undefined
      ? grantFor(engine, {
          tenantId: store.tenantId,
          approval,
          run,
          params: changed.edited?.params ?? approval.params,
          terms,
          by,
          approvers: [...agreeing.map((each) => each.approver), approver],
        })
      : undefined;
  const votes: ApprovalVotes = {
    quorum,
    votes: [...(decides ? agreeing : others).map((each) => each.vote), vote],
    ...changed,
  };
  if (decides) {
    const named = rules.length === 0 ? undefined : votes;
    const parts = { ...changed, ...defined({ grant, votes: named }) };
    return storeDecision(control, store, { approval, run, decision }, parts);
  }
  // Not if it was given with a key that has ended since: then the vote no longer counts.
  const isRepeated = counted.some(
    (each) => each.approver.person === vote.person && each.vote.answer === vote.answer,
  );
  if (isRepeated) return 'voted';
  const isStored = await store.changeVotes({
    approvalId: approval.id,
    at,
    ballot: approval.ballot,
    votes,
    audit: auditRecordsOf(engine, store.tenantId, [auditOfVote(approval, vote, votes)]),
    notices: [noticeOfVote(run, approval, vote, votes)],
  });
  return isStored ? 'voted' : 'outdated';
}

/** The key that made the call. */
export function requesterOf(
  { keyId }: Pick<ApprovalRecord, 'keyId'>,
  run: Pick<RunHead, 'keyId'> | undefined,
): string | null {
  return run === undefined ? (keyId ?? null) : run.keyId;
}

/** A refused decision is audited. The holder of a link is not known, so it is no approver of a rule. */
async function refuseUnlessEntitled(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  requirement: Requirement,
  { by, byLink, approved }: Decision,
): Promise<void> {
  if (!demandsApprovers(requirement)) return;
  const at = engine.clock.now();
  const approver = await findApprover(store, keyIdOf(by), at);
  if (byLink !== true && mayDecide(requirement, approver, approved)) return;
  const entry = auditOfRefusal(approval, { at, by });
  if (engine.refused === undefined) {
    await store.audit.add(auditRecordsOf(engine, store.tenantId, [entry]));
  } else {
    await engine.refused(store.tenantId, [by.id, approval.id], entry);
  }
  throw notAnApprover(approval, requirement);
}

function digestOf({ digest }: ApprovalRecord, edited: EditedCall | undefined): string {
  return edited?.digest ?? digest;
}

/** Of the arguments that an approver is shown. */
function shownDigest(approval: ApprovalRecord): string {
  return digestOf(approval, approval.votes?.edited);
}

/** Arguments that run instead of those that were requested, and how they were sent. */
type ChangedCall = Pick<ApprovalVotes, 'edited' | 'input'>;

/**
 * The call as this approver has changed it, or as an earlier voter has. To agree with changed arguments,
 * an approver must name what they saw: the call was first shown with other arguments.
 */
async function changedCall(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  { input, digest, outcome }: Decision,
  policies: readonly Policy[],
): Promise<ChangedCall> {
  const shown = shownDigest(approval);
  const { edited: pending, input: pendingInput } = approval.votes ?? {};
  const isBlind = digest === undefined && input === undefined && pending !== undefined;
  if (isBlind || (digest !== undefined && digest !== shown)) throw approvalChanged();
  const sent = input ?? pendingInput;
  const edited = await editedCall(engine, store, approval, { input: sent, policies });
  // The paths of the changed arguments lead elsewhere by now.
  if (input === undefined && digestOf(approval, edited) !== shown) throw approvalChanged();
  if (edited !== undefined) return { edited, input: sent };
  if (outcome === 'rerun' || approval.kind === 'permission') {
    await rejectIfDeniedByPolicy(engine, store.tenantId, approval, policies);
  }
  return {};
}

function approvalChanged(): RelayError {
  return new RelayError(
    'approval_changed',
    'The arguments of this call were changed since they were shown. Read the approval again, and send its executedDigest, or else its digest, as digest',
    { details: [{ path: 'digest', message: 'Does not match the arguments as they are now' }] },
  );
}

interface DecisionParts extends ChangedCall {
  readonly grant?: NewGrant;
  /** The votes that decide. */
  readonly votes?: ApprovalVotes;
}

interface ToDecide {
  readonly approval: ApprovalRecord;
  readonly run: RunHead | undefined;
  readonly decision: Decision;
}

async function storeDecision(
  { engine, supervisor }: RunControl,
  store: TenantStore,
  { approval, run, decision }: ToDecide,
  { edited, input = decision.input, grant, votes }: DecisionParts,
): Promise<Stored> {
  const { approvalId, approved, outcome, always, reason, output, by } = decision;
  const changed = defined({ edited });
  const { question } = approval;
  if (question !== undefined && approved) checkAnswer(question.schema, decision.input);
  const replies = {
    ...defined({ outcome, output }),
    ...(question === undefined || !approved ? {} : { answer: decision.input }),
  };
  // Not after the grant's time: the audit trail lists the decision first.
  const at = grant?.createdAt ?? engine.clock.now();
  const status = approved ? 'approved' : 'denied';
  const entry = auditOfDecision(approval, {
    at,
    by,
    approved,
    outcome,
    reason,
    edited: edited?.digest,
    votes,
  });
  const decided = {
    approvalId,
    status,
    at,
    by,
    reason,
    ...changed,
    answer: serializeDecision(approval, decision, decision, input),
    // A denial stands whatever others voted.
    ...defined({ grant, votes, ballot: approved ? approval.ballot : undefined }),
  } as const;
  const notices = [noticeOfDecision(run, approval, { status, at, by, outcome, edited })];
  const audit = auditRecordsOf(engine, store.tenantId, [
    entry,
    ...(grant === undefined ? [] : [auditOfGrant(grant, approval)]),
  ]);
  if (run === undefined) {
    const isStored = await decideRequest(engine, store, approval, { decided, notices, audit });
    return isStored ? 'decided' : 'outdated';
  }
  const isStored = await supervisor.decide(store.tenantId, {
    ...decided,
    runId: run.id,
    queued: {
      id: engine.ids.next(),
      command: {
        kind: 'decision',
        approvalId,
        approved,
        always,
        reason,
        ...replies,
        ...changed,
        by,
      },
    },
    notices,
    audit,
  });
  return isStored ? 'decided' : 'outdated';
}
