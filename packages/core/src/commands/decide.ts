/** A person's answer to an approval: it is stored, with all that follows from it, before it is acknowledged. */
import { canonicalJson, type Decider, RelayError } from '@relay/protocol';
import { audited, auditOfDecision, auditOfGrant } from '../governance/audit.ts';
import type { Control } from './start-run.ts';
import { editedCall, isUnchanged, refuseDeniedByPolicy } from './edited-call.ts';
import type { Engine } from '../engine.ts';
import { grantFor, type GrantTerms } from '../permission/grants.ts';
import type { ApprovalRecord, RunHead, TenantStore } from '../ports/index.ts';
import { noticeOfDecision } from '../governance/notifications.ts';
import { checkAnswer } from '../run/waiting/question-schema.ts';

export interface Answer {
  readonly approvalId: string;
  readonly approved: boolean;
  readonly always: boolean;
  readonly reason: string | null;
  /** The arguments to run the call with instead, or the answer to a question. */
  readonly input?: unknown;
  /** For an approval of kind `outcome`: it happened, and this is its result. */
  readonly output?: unknown;
  /** With `always`: where, how long and of what it holds. */
  readonly terms?: GrantTerms;
  readonly by: Decider;
}

export type AnswerOutcome =
  | { readonly kind: 'decided' | 'repeated' | 'contradicted'; readonly approval: ApprovalRecord }
  | { readonly kind: 'missing' };

/** Decides an approval once and for all (E7): the first answer counts, by compare-and-set. */
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
  const given = writtenDown(approval, answer);
  if (
    approval.status === 'pending' &&
    (await decideNow(engine, { store, approval, run, answer, given }))
  ) {
    supervisor.wake({ tenantId, runId: approval.runId });
    return { kind: 'decided', approval };
  }
  const now = (await store.readApproval(approval.id)) ?? approval;
  return { kind: now.answer === given ? 'repeated' : 'contradicted', approval: now };
}

/** What an answer may hold depends on what was asked. */
function checkKind({ kind }: ApprovalRecord, answer: Answer): void {
  const { approved, always, input, output, terms = {} } = answer;
  const [term] = Object.keys(terms);
  if (term !== undefined && kind !== 'permission') {
    throw misplaced(term, 'Only a permission can be granted for always');
  }
  if (output !== undefined && kind !== 'outcome') {
    throw misplaced('output', 'Answers an approval of kind outcome alone');
  }
  if (input !== undefined && kind === 'outcome') {
    throw misplaced('input', 'What became of a call is not changed by other arguments');
  }
  if (kind === 'permission' && input !== undefined && !isObject(input)) {
    throw misplaced('input', 'Must be an object');
  }
  if (kind === 'question' && approved && input === undefined) {
    throw misplaced('input', 'Required: the answer to the question');
  }
  if (kind === 'question' && always) {
    throw misplaced('always', 'An answer holds for its question alone');
  }
  if (kind === 'outcome' && always) {
    throw misplaced('always', 'What became of a call holds for that call alone');
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function misplaced(path: string, message: string): RelayError {
  const text = `${path}: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
  return new RelayError('invalid_request', text, { details: [{ path, message }] });
}

/** A reason is only words: who says the same for another reason says the same. */
function writtenDown(approval: ApprovalRecord, answer: Answer): string {
  const { approved, always, input, output, terms = {} } = answer;
  const { scope = 'conversation', rule = 'exact', ...bounds } = terms;
  const said = {
    ...(scope === 'conversation' ? {} : { scope }),
    ...(rule === 'exact' ? {} : { rule }),
    ...bounds,
  };
  return canonicalJson({
    approved,
    always,
    ...(Object.keys(said).length === 0 ? {} : { terms: said }),
    ...(output === undefined ? {} : { output }),
    ...(input === undefined || isShown(approval, input) ? {} : { input }),
  });
}

/** Who sends back the arguments that were shown says no more than yes. */
function isShown(approval: ApprovalRecord, input: unknown): boolean {
  return approval.kind === 'permission' && isUnchanged(approval, input);
}

interface Deciding {
  readonly store: TenantStore;
  readonly approval: ApprovalRecord;
  readonly run: RunHead;
  readonly answer: Answer;
  readonly given: string;
}

/** Checks everything that could refuse the answer, then stores it; false if another one was first. */
async function decideNow(engine: Engine, deciding: Deciding): Promise<boolean> {
  const { store, approval, run, answer, given } = deciding;
  const { approvalId, approved, always, reason, output, terms = {}, by } = answer;
  const edited = await editedCall(engine, { store, approval, input: answer.input });
  if (edited === undefined && approved && approval.kind === 'permission') {
    await refuseDeniedByPolicy(engine, store, approval);
  }
  const changed = edited === undefined ? {} : { edited };
  const params = edited?.params ?? approval.params;
  const { question } = approval;
  if (question !== undefined && approved) checkAnswer(question.schema, answer.input);
  const told = {
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
    answer: given,
    queued: {
      id: engine.ids.next(),
      command: { kind: 'decision', approvalId, approved, always, reason, ...told, ...changed, by },
    },
    ...(grant === undefined ? {} : { grant }),
    notices: [noticeOfDecision(run, approval, { status, at, by })],
    audit: audited(engine, store.tenantId, [
      entry,
      ...(grant === undefined ? [] : [auditOfGrant(grant, approval.runId)]),
    ]),
  });
}
