/** `/v1/audit`: the trail, its end, and whether it is still whole. */
import type { AuditEntry, AuditFilter, AuditRecord } from '@relay/core';
import { type auditQuerySchema, type auditVerifyQuerySchema, RelayError } from '@relay/protocol';
import type { z } from 'zod';
import { storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { iso } from '../views/run.ts';

/** What was done before this request is in it: it is given its place first. */
export const listAudit: Handler = async (call) => {
  const query = call.query as z.infer<typeof auditQuerySchema>;
  await sealNow(call);
  const found = await storeOf(call).audit.list(filterOf(query), pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ at, id }) => ({ at, id }));
  return { entries: items.map(presentEntry), nextCursor };
};

export const auditHead: Handler = async (call) => {
  await sealNow(call);
  const { sealedAt, ...head } = await call.context.audit.head(call.caller.tenantId);
  return { ...head, ...(sealedAt === undefined ? {} : { sealedAt: iso(sealedAt) }) };
};

export const verifyAudit: Handler = async (call) => {
  const { seq, hash } = call.query as z.infer<typeof auditVerifyQuerySchema>;
  await sealNow(call);
  const known = seq === undefined || hash === undefined ? undefined : { seq, hash };
  return call.context.audit.verify(call.caller.tenantId, known);
};

function sealNow({ context, caller }: Call): Promise<void> {
  return context.audit.seal(caller.tenantId);
}

function filterOf(query: z.infer<typeof auditQuerySchema>): AuditFilter {
  const { action, actor, runId, since, until } = query;
  return {
    ...(action === undefined ? {} : { action }),
    ...(actor === undefined ? {} : { actor }),
    ...(runId === undefined ? {} : { runId }),
    ...(since === undefined ? {} : { since: Date.parse(since) }),
    ...(until === undefined ? {} : { until: Date.parse(until) }),
  };
}

function presentEntry({ id, seq, hash, text }: AuditRecord) {
  const { at, who, action, what, why } = entryIn(text, seq);
  return { id, seq, at: iso(at), who, action, what, ...(why === null ? {} : { why }), hash };
}

function entryIn(text: string, seq: number): AuditEntry {
  try {
    return JSON.parse(text) as AuditEntry;
  } catch {
    const message = `Entry ${seq} of the audit trail is not what was written; verify it`;
    throw new RelayError('journal_corrupt', message);
  }
}
