/** Decides approvals. A decision is stored with its command, grant and notices before it is acknowledged. */
import {
  canonicalJson,
  type Decider,
  defined,
  type OutcomeAnswer,
  RelayError,
} from '@relay/protocol';
import { auditRecordsOf, auditOfDecision, auditOfGrant } from '../governance/audit.ts';
import type { RunControl } from './start-run.ts';
import { editedCall, isUnchanged, rejectIfDeniedByPolicy } from './edited-call.ts';
import type { Engine } from '../engine.ts';
import { grantFor, type GrantTerms } from '../permission/grants.ts';
import type { ApprovalRecord, RunHead, TenantStore } from '../ports/index.ts';
import { noticeOfDecision } from '../governance/notifications.ts';
import { isObject } from '../run/arguments.ts';
import { checkAnswer } from '../run/waiting/questions.ts';

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
  readonly by: Decider;
}

export type DecisionOutcome =
  | { readonly kind: 'decided' | 'duplicate' | 'conflict'; readonly approval: ApprovalRecord }
  | { readonly kind: 'missing' };

/** Decides an approval (E7). The first decision counts, by compare-and-set. */
export async function recordDecision(
  control: RunControl,
  tenantId: string,
  decision: DecisionInput,
): Promise<DecisionOutcome> {
  const { engine, supervisor } = control;
  const store = engine.store.tenant(tenantId);
  const approval = await store.readApproval(decision.approvalId);
  if (approval === undefined) return { kind: 'missing' };
  const run = await store.readRunHead(approval.runId);
  if (run === undefined) return { kind: 'missing' };
  const answer = answerTo(approval, decision);
  const serialized = serializeDecision(approval, decision, answer);
  if (
    approval.status === 'pending' &&
    (await storeDecision(engine, store, approval, run, { ...decision, ...answer }, serialized))
  ) {
    supervisor.wake({ tenantId, runId: approval.runId });
    return { kind: 'decided', approval };
  }
  const now = (await store.readApproval(approval.id)) ?? approval;
  return { kind: now.answer === serialized ? 'duplicate' : 'conflict', approval: now };
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
      `${tool} was started before a crash and may have taken effect. Answer with outcome: "rerun" (run it again), "completed" with its output (it took effect), or "failed" (it did not)`,
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
  decision: DecisionInput,
  { approved, outcome }: Answer,
): string {
  const { always, input, output, terms = {} } = decision;
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

/** Checks the decision, then stores it; false if another decision was first. */
async function storeDecision(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  run: RunHead,
  decision: Decision,
  serialized: string,
): Promise<boolean> {
  const { approvalId, approved, outcome, always, reason, output, terms = {}, by } = decision;
  const edited = await editedCall(engine, store, approval, decision.input);
  const runs = outcome === 'rerun' || (approved && approval.kind === 'permission');
  if (edited === undefined && runs) {
    await rejectIfDeniedByPolicy(engine, store, approval);
  }
  const changed = defined({ edited });
  const params = edited?.params ?? approval.params;
  const { question } = approval;
  if (question !== undefined && approved) checkAnswer(question.schema, decision.input);
  const replies = {
    ...defined({ outcome, output }),
    ...(question === undefined || !approved ? {} : { answer: decision.input }),
  };
  const grants = approved && always && approval.kind === 'permission' && engine.rules === undefined;
  // Before the grant's time: the audit trail lists the decision first.
  const at = engine.clock.now();
  const grant = grants ? grantFor(engine, { approval, run, params, terms, by }) : undefined;
  const status = approved ? 'approved' : 'denied';
  const entry = auditOfDecision(approval, {
    at,
    by,
    approved,
    outcome,
    reason,
    edited: edited?.digest,
  });
  return store.decideApproval({
    approvalId,
    runId: approval.runId,
    status,
    at,
    by,
    reason,
    ...changed,
    answer: serialized,
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
    ...defined({ grant }),
    notices: [noticeOfDecision(run, approval, { status, at, by, outcome, edited })],
    audit: auditRecordsOf(engine, store.tenantId, [
      entry,
      ...(grant === undefined ? [] : [auditOfGrant(grant, approval.runId)]),
    ]),
  });
}
