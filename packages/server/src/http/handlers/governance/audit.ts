/** `/v1/audit`: list and verify the audit trail. Entries written before a request are sealed first. */
import type { AuditEntry, AuditFilter, AuditRecord } from '@relay/core';
import { defined, type QueryOf, RelayError } from '@relay/protocol';
import { streamJson } from '../../../streaming/stream-json.ts';
import { type ApiRequest, type Handler, storeOf } from '../handler.ts';
import { iso, isoOrUndefined, readListed, parseTime } from '../../views/pagination.ts';

export const listAudit: Handler<'listAudit'> = async (call) => {
  const query = call.query;
  await sealNow(call);
  const { items, ...rest } = await readListed(query, (page) =>
    storeOf(call).audit.list(filterOf(query), page),
  );
  return { entries: items.map(presentEntry), ...rest };
};

export const auditHead: Handler<'auditHead'> = async (call) => {
  await sealNow(call);
  const { sealedAt, ...head } = await call.context.audit.head(call.caller.tenantId);
  const { publicKey } = call.context.audit;
  return { ...head, sealedAt: isoOrUndefined(sealedAt), publicKey };
};

export const verifyAudit: Handler<'verifyAudit'> = async (call) => {
  const { seq, hash } = call.query;
  await sealNow(call);
  const known = seq === undefined || hash === undefined ? undefined : { seq, hash };
  return call.context.audit.verify(call.caller.tenantId, known);
};

export const exportAudit: Handler<'exportAudit'> = async (call) => {
  await sealNow(call);
  const lines = await call.context.audit.export(call.caller.tenantId, call.query);
  await streamJson(call, lines, 'application/x-ndjson');
};

function sealNow({ context, caller }: ApiRequest): Promise<void> {
  return context.audit.seal(caller.tenantId);
}

function filterOf(query: QueryOf<'listAudit'>): AuditFilter {
  const { action, actor, runId, since, until } = query;
  return defined({ action, actor, runId, since: parseTime(since), until: parseTime(until) });
}

function presentEntry({ id, seq, hash, text }: AuditRecord) {
  const { at, who, action, what, why } = entryIn(text, seq);
  return { id, seq, at: iso(at), who, action, what, why: why ?? undefined, hash };
}

function entryIn(text: string, seq: number): AuditEntry {
  try {
    return JSON.parse(text) as AuditEntry;
  } catch {
    const message = `Entry ${seq} of the audit trail is damaged; run GET /v1/audit/verify`;
    throw new RelayError('journal_corrupt', message);
  }
}
