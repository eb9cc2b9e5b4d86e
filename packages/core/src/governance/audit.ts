/**
 * Who did what, and why: what the audit trail says of a run. It says which call it was by its tool and
 * its digest; the arguments themselves stay in the journal.
 */
import type { Decider, RuleRef, StoredEvent } from '@relay/protocol';
import { digestOfCall } from '../commands/edited-call.ts';
import type { Engine } from '../engine.ts';
import type {
  AuditEntry,
  NewAudit,
  NewGrant,
  ApprovalRecord,
  RunIdentity,
} from '../ports/index.ts';

/** Nothing where nobody keeps a trail. */
export function audited(
  engine: { readonly audit?: Engine['audit'] | undefined },
  tenantId: string,
  entries: readonly AuditEntry[],
): NewAudit[] {
  const { audit } = engine;
  return audit === undefined ? [] : entries.map((entry) => audit(tenantId, entry));
}

/** What the journal tells of that was decided without a person. */
export function auditOfEvents(
  engine: Pick<Engine, 'audit' | 'digest'>,
  run: RunIdentity,
  events: readonly StoredEvent[],
): NewAudit[] {
  if (engine.audit === undefined) return [];
  const entries = events.flatMap((event) => entriesOn(engine, run, event));
  return audited(engine, run.tenantId, entries);
}

function entriesOn(
  engine: Pick<Engine, 'digest'>,
  run: RunIdentity,
  event: StoredEvent,
): AuditEntry[] {
  const at = () => Date.parse(event.at);
  switch (event.type) {
    case 'tool.started': {
      // What a tool is allowed by itself, nobody has decided.
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
      const why = 'Nobody answered in time';
      return [{ at: at(), who, action: 'approval.expired', what: approvalOf(run, event), why }];
    }
    case 'approval.closed': {
      const who = { type: 'system', id: 'relay', name: 'relay' } as const;
      return [
        {
          at: at(),
          who,
          action: 'approval.closed',
          what: approvalOf(run, event),
          why: event.reason,
        },
      ];
    }
    default:
      return [];
  }
}

function callOf(run: RunIdentity, event: { agentId: string; toolCallId: string; name: string }) {
  const { agentId, toolCallId, name } = event;
  return { runId: run.id, agentId, toolCallId, tool: name };
}

function approvalOf(run: RunIdentity, event: { approvalId: string; toolCallId: string }) {
  return { runId: run.id, approvalId: event.approvalId, toolCallId: event.toolCallId };
}

function ruleOf({ list, index, source }: RuleRef) {
  return { list, index, source };
}

function byRule({ source, list, index, id }: RuleRef): Decider {
  return { type: 'rule', id: id ?? `${source}.${list}[${index}]`, name: `${source} ${list}` };
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
    readonly reason: string | null;
    /** Of the arguments as they were changed. */
    readonly edited?: string | undefined;
  },
): AuditEntry {
  const { at, by, approved, reason, edited } = decision;
  const { id: approvalId, runId, toolCallId, tool, kind, digest } = approval;
  const what = {
    runId,
    approvalId,
    toolCallId,
    tool,
    kind,
    digest,
    approved,
    ...(edited === undefined ? {} : { executedDigest: edited }),
  };
  return { at, who: by, action: 'approval.decided', what, why: reason };
}

export function auditOfGrant(grant: NewGrant, runId?: string): AuditEntry {
  const { id: grantId, tool, scope, scopeId, expiresAt, uses, createdAt: at, createdBy } = grant;
  const what = {
    ...(runId === undefined ? {} : { runId }),
    grantId,
    tool,
    scope,
    scopeId,
    // Which parameters it speaks of; what they may be is in the grant.
    params: Object.keys(grant.exact ?? grant.params ?? {}),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(uses === undefined ? {} : { uses }),
  };
  return { at, who: createdBy, action: 'grant.created', what, why: null };
}
