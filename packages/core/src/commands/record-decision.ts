/** Decides approvals. A decision is stored with its command, grant and notices before it is acknowledged. */
import { canonicalJson, type Decider, defined, RelayError } from '@relay/protocol';
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
  readonly approved: boolean;
  readonly always: boolean;
  readonly reason: string | null;
  /** Changed arguments for the call, or the answer to a question. */
  readonly input?: unknown;
  /** For an approval of kind `outcome`: the result of the call. */
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
  checkKind(approval, decision);
  const serialized = serializeDecision(approval, decision);
  if (
    approval.status === 'pending' &&
    (await storeDecision(engine, store, approval, run, decision, serialized))
  ) {
    supervisor.wake({ tenantId, runId: approval.runId });
    return { kind: 'decided', approval };
  }
  const now = (await store.readApproval(approval.id)) ?? approval;
  return { kind: now.answer === serialized ? 'duplicate' : 'conflict', approval: now };
}

/** The fields that a decision may have depend on the kind of the approval. */
function checkKind({ kind }: ApprovalRecord, decision: DecisionInput): void {
  const { approved, always, input, output, terms = {} } = decision;
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
  if (kind === 'question' && approved && input === undefined) {
    throw invalidField('input', 'Required: the answer to the question');
  }
  if (kind !== 'permission' && always) {
    throw invalidField('always', `Not allowed for an approval of kind ${kind}`);
  }
}

function invalidField(path: string, message: string): RelayError {
  const text = `${path}: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
  return new RelayError('invalid_request', text, { details: [{ path, message }] });
}

/** The decision in canonical form, without its reason: equal texts are repetitions of one decision. */
function serializeDecision(approval: ApprovalRecord, decision: DecisionInput): string {
  const { approved, always, input, output, terms = {} } = decision;
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
    ...(output === undefined ? {} : { output }),
    ...(isEdited ? { input } : {}),
  });
}

/** Checks the decision, then stores it; false if another decision was first. */
async function storeDecision(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  run: RunHead,
  decision: DecisionInput,
  serialized: string,
): Promise<boolean> {
  const { approvalId, approved, always, reason, output, terms = {}, by } = decision;
  const edited = await editedCall(engine, store, approval, decision.input);
  if (edited === undefined && approved && approval.kind === 'permission') {
    await rejectIfDeniedByPolicy(engine, store, approval);
  }
  const changed = defined({ edited });
  const params = edited?.params ?? approval.params;
  const { question } = approval;
  if (question !== undefined && approved) checkAnswer(question.schema, decision.input);
  const replies = {
    ...(output === undefined ? {} : { output }),
    ...(question === undefined || !approved ? {} : { answer: decision.input }),
  };
  const grants = approved && always && approval.kind === 'permission' && engine.rules === undefined;
  // Before the grant's time: the audit trail lists the decision first.
  const at = engine.clock.now();
  const grant = grants ? grantFor(engine, { approval, run, params, terms, by }) : undefined;
  const status = approved ? 'approved' : 'denied';
  const entry = auditOfDecision(approval, { at, by, approved, reason, edited: edited?.digest });
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
    notices: [noticeOfDecision(run, approval, { status, at, by })],
    audit: auditRecordsOf(engine, store.tenantId, [
      entry,
      ...(grant === undefined ? [] : [auditOfGrant(grant, approval.runId)]),
    ]),
  });
}
