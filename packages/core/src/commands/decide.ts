/** Decides approvals. A decision is stored with its command, grant and notices before it is acknowledged. */
import { canonicalJson, type Decider, defined, RelayError } from '@relay/protocol';
import { audited, auditOfDecision, auditOfGrant } from '../governance/audit.ts';
import type { Control } from './start-run.ts';
import { editedCall, isUnchanged, refuseDeniedByPolicy } from './edited-call.ts';
import type { Engine } from '../engine.ts';
import { grantFor, type GrantTerms } from '../permission/grants.ts';
import type { ApprovalRecord, RunHead, TenantStore } from '../ports/index.ts';
import { noticeOfDecision } from '../governance/notifications.ts';
import { checkAnswer } from '../run/waiting/questions.ts';

export interface Answer {
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

export type AnswerOutcome =
  | { readonly kind: 'decided' | 'repeated' | 'contradicted'; readonly approval: ApprovalRecord }
  | { readonly kind: 'missing' };

/** Decides an approval (E7). The first answer counts, by compare-and-set. */
export async function answerApproval(
  control: Control,
  tenantId: string,
  answer: Answer,
): Promise<AnswerOutcome> {
  const { engine, supervisor } = control;
  const store = engine.store.tenant(tenantId);
  const approval = await store.readApproval(answer.approvalId);
  if (approval === undefined) return { kind: 'missing' };
  const run = await store.readRunHead(approval.runId);
  if (run === undefined) return { kind: 'missing' };
  checkKind(approval, answer);
  const serialized = serializeAnswer(approval, answer);
  if (
    approval.status === 'pending' &&
    (await storeDecision(engine, store, approval, run, answer, serialized))
  ) {
    supervisor.wake({ tenantId, runId: approval.runId });
    return { kind: 'decided', approval };
  }
  const now = (await store.readApproval(approval.id)) ?? approval;
  return { kind: now.answer === serialized ? 'repeated' : 'contradicted', approval: now };
}

/** The fields that an answer may have depend on the kind of the approval. */
function checkKind({ kind }: ApprovalRecord, answer: Answer): void {
  const { approved, always, input, output, terms = {} } = answer;
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
  if (kind === 'question' && always) {
    throw invalidField('always', 'Not allowed for an approval of kind question');
  }
  if (kind === 'outcome' && always) {
    throw invalidField('always', 'Not allowed for an approval of kind outcome');
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalidField(path: string, message: string): RelayError {
  const text = `${path}: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
  return new RelayError('invalid_request', text, { details: [{ path, message }] });
}

/** The answer in canonical form, without its reason: equal texts are repetitions of one answer. */
function serializeAnswer(approval: ApprovalRecord, answer: Answer): string {
  const { approved, always, input, output, terms = {} } = answer;
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

/** Checks the answer, then stores it; false if another answer was first. */
async function storeDecision(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  run: RunHead,
  answer: Answer,
  serialized: string,
): Promise<boolean> {
  const { approvalId, approved, always, reason, output, terms = {}, by } = answer;
  const edited = await editedCall(engine, store, approval, answer.input);
  if (edited === undefined && approved && approval.kind === 'permission') {
    await refuseDeniedByPolicy(engine, store, approval);
  }
  const changed = defined({ edited });
  const params = edited?.params ?? approval.params;
  const { question } = approval;
  if (question !== undefined && approved) checkAnswer(question.schema, answer.input);
  const replies = {
    ...(output === undefined ? {} : { output }),
    ...(question === undefined || !approved ? {} : { answer: answer.input }),
  };
  const grants = approved && always && approval.kind === 'permission' && engine.rules === undefined;
  const grant = grants ? grantFor(engine, { approval, run, params, terms, by }) : undefined;
  const at = engine.clock.now();
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
    audit: audited(engine, store.tenantId, [
      entry,
      ...(grant === undefined ? [] : [auditOfGrant(grant, approval.runId)]),
    ]),
  });
}
