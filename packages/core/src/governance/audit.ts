/**
 * The audit entries of runs: who did what, and why. A call is named by its tool and its digest; the
 * arguments stay in the journal.
 */
import {
  type Decider,
  defined,
  type EventOf,
  type OutcomeAnswer,
  type RuleRef,
  type StoredEvent,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type {
  AuditEntry,
  NewAuditEntry,
  NewGrant,
  ApprovalRecord,
  ApprovalVotes,
  RunIdentity,
  Vote,
} from '../ports/index.ts';
import { digestOfCall } from '../run/arguments.ts';
import { expiryReason } from '../run/state/call.ts';

/** The records of entries; none without an audit trail. */
export function auditRecordsOf(
  engine: { readonly audit?: Engine['audit'] | undefined },
  tenantId: string,
  entries: readonly AuditEntry[],
): NewAuditEntry[] {
  const { audit } = engine;
  return audit === undefined ? [] : entries.map((entry) => audit(tenantId, entry));
}

/** Entries for what rules and timeouts decided. Decisions of people have their own entries. */
export function auditOfEvents(
  engine: Pick<Engine, 'audit' | 'digest'>,
  run: RunIdentity,
  events: readonly StoredEvent[],
): NewAuditEntry[] {
  if (engine.audit === undefined) return [];
  const entries = events.flatMap((event) => entriesForEvent(engine, run, event));
  return auditRecordsOf(engine, run.tenantId, entries);
}

function entriesForEvent(
  engine: Pick<Engine, 'digest'>,
  run: RunIdentity,
  event: StoredEvent,
): AuditEntry[] {
  const at = () => Date.parse(event.at);
  switch (event.type) {
    case 'tool.started': {
      // A call that its tool allows by default was decided by no rule.
      if (event.rule === undefined || event.rule.source === 'builtin') return [];
      const digest = digestOfCall(engine, event);
      const what = { ...callOf(run, event), digest, ...ruleOf(event.rule) };
      return [{ at: at(), who: byRule(event.rule), action: 'call.allowed', what, why: null }];
    }
    case 'tool.denied': {
      if (event.rule === undefined) return [];
      const what = { ...callOf(run, event), ...ruleOf(event.rule) };
      const why = event.reason ?? null;
      return [{ at: at(), who: byRule(event.rule), action: 'call.denied', what, why }];
    }
    case 'approval.expired': {
      const who = { type: 'timeout', id: 'expiry', name: 'expiry' } as const;
      const what = approvalOf(run, event);
      return [{ at: at(), who, action: 'approval.expired', what, why: expiryReason }];
    }
    case 'approval.closed': {
      const who = { type: 'system', id: 'relay', name: 'relay' } as const;
      const what = approvalOf(run, event);
      return [{ at: at(), who, action: 'approval.closed', what, why: event.reason }];
    }
    default:
      return [];
  }
}

function callOf(run: RunIdentity, event: { agentId: string; toolCallId: string; name: string }) {
  const { agentId, toolCallId, name } = event;
  return { runId: run.id, agentId, toolCallId, tool: name };
}

function approvalOf(run: RunIdentity, event: EventOf<'approval.expired' | 'approval.closed'>) {
  const { approvalId, toolCallId, tool, kind } = event;
  return { runId: run.id, approvalId, toolCallId, ...defined({ tool, kind }) };
}

function ruleOf({ list, index, source }: RuleRef) {
  return { list, index, source };
}

function byRule({ source, list, index, id }: RuleRef): Decider {
  return { type: 'rule', id: id ?? `${source}.${list}[${index}]`, name: `${source} ${list}` };
}

/** For a call of a session's program that a rule answered. */
export function auditOfSessionCall(
  engine: Pick<Engine, 'digest'>,
  {
    sessionId,
    tool,
    input,
  }: { readonly sessionId: string; readonly tool: string; readonly input: unknown },
  { at, rule, denial }: { readonly at: number; readonly rule: RuleRef; readonly denial?: string },
): AuditEntry[] {
  // A call that its tool allows by default was decided by no rule.
  if (rule.source === 'builtin') return [];
  const digest = digestOfCall(engine, { name: tool, input });
  const what = { sessionId, tool, digest, ...ruleOf(rule) };
  const action = denial === undefined ? 'call.allowed' : 'call.denied';
  return [{ at, who: byRule(rule), action, what, why: denial ?? null }];
}

export function auditOfStart(run: RunIdentity, by: Decider): AuditEntry {
  const { id: runId, agent, model, surface, conversationId } = run;
  const what = { runId, agent, model, surface, conversationId };
  return { at: run.createdAt, who: by, action: 'run.started', what, why: null };
}

export function auditOfDecision(
  approval: ApprovalRecord,
  decision: {
    readonly at: number;
    readonly by: Decider;
    readonly approved: boolean;
    readonly outcome: OutcomeAnswer | undefined;
    readonly reason: string | null;
    /** The digest of the changed arguments. */
    readonly edited?: string | undefined;
    readonly votes?: ApprovalVotes | undefined;
  },
): AuditEntry {
  const { at, by, approved, outcome, reason, edited, votes } = decision;
  const what = {
    ...requestOf(approval),
    approved,
    ...defined({ outcome, executedDigest: edited }),
    ...(votes === undefined ? {} : votesOf(votes)),
  };
  return { at, who: by, action: 'approval.decided', what, why: reason };
}

/** A vote that is not the last; the last one is the decision. */
export function auditOfVote(
  approval: ApprovalRecord,
  vote: Vote,
  votes: ApprovalVotes,
): AuditEntry {
  const executedDigest = votes.edited?.digest;
  const what = { ...requestOf(approval), ...defined({ executedDigest }), ...votesOf(votes) };
  return { at: vote.at, who: vote.by, action: 'approval.voted', what, why: null };
}

/** A decision of a person whom the policy does not name. */
export function auditOfRefusal(
  approval: ApprovalRecord,
  { at, by }: { readonly at: number; readonly by: Decider },
): AuditEntry {
  const what = requestOf(approval);
  return { at, who: by, action: 'approval.refused', what, why: 'The policy names other approvers' };
}

function requestOf(approval: ApprovalRecord) {
  const { id, runId, toolCallId, sessionId, invocationId, tool, kind, digest } = approval;
  const whose = defined({ runId, sessionId, invocationId });
  return { ...whose, approvalId: id, ...defined({ toolCallId }), tool, kind, digest };
}

/** Of an approval without a run. */
export function auditOfExpiry(approval: ApprovalRecord, at: number): AuditEntry {
  const who: Decider = { type: 'timeout', id: 'expiry', name: 'expiry' };
  const what = requestOf(approval);
  return { at, who, action: 'approval.expired', what, why: expiryReason };
}

/** Who has approved, and in which role. */
function votesOf({ votes, quorum }: ApprovalVotes) {
  const names = votes.map(({ person, by: { role } }) =>
    role === undefined ? person : `${person} (${role})`,
  );
  return { votes: names, quorum };
}

/** `approval`: that which the grant was made with. */
export function auditOfGrant(
  grant: NewGrant,
  approval?: Pick<ApprovalRecord, 'id' | 'runId'>,
): AuditEntry {
  const { id: grantId, tool, scope, scopeId, expiresAt, uses, createdAt: at, createdBy } = grant;
  const what = {
    ...defined({ runId: approval?.runId, approvalId: approval?.id, expiresAt, uses }),
    grantId,
    tool,
    scope,
    scopeId,
    // Only the names: the values are in the grant.
    params: Object.keys(grant.exact ?? grant.params ?? {}),
  };
  return { at, who: createdBy, action: 'grant.created', what, why: null };
}
