import { type AuditFact, audited, type NewAudit } from '@relay/core';
import type { AuditAction } from '@relay/protocol';
import type { Call } from './handler.ts';

/** What the audit trail shall say of what this caller does. */
export function auditEntry(
  { context, caller }: Call,
  action: AuditAction,
  what: Readonly<Record<string, AuditFact>>,
): NewAudit[] {
  const { engine } = context.control;
  const at = engine.clock.now();
  return audited(engine, caller.tenantId, [{ at, who: caller.as, action, what, why: null }]);
}
