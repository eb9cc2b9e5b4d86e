/** `/v1/credentials`: the API keys of providers. They are never returned. */
import { type CredentialRecord, nativeHarness } from '@relay/core';
import { UrlRefused } from '@relay/models';
import { defined, RelayError } from '@relay/protocol';
import { isKnownProvider } from '../../../outbound/providers.ts';
import { invalidField } from '../../errors.ts';
import { auditEntry, type ApiRequest, type Handler, storeOf } from '../handler.ts';
import { iso } from '../../views/pagination.ts';

export const putCredential: Handler<'putCredential'> = async (call) => {
  const { provider } = call.params;
  const { apiKey, label, baseUrl } = call.body;
  if (baseUrl === undefined && !isKnownProvider(provider)) {
    throw invalidField('baseUrl', `Required for the provider ${provider}`);
  }
  if (baseUrl !== undefined) checkUrl(call, 'baseUrl', baseUrl);
  const origin = baseUrl === undefined ? undefined : new URL(baseUrl).origin;
  const record = await call.context.vault.put(
    { tenantId: call.caller.tenantId, provider },
    { apiKey, label: label ?? null, baseUrl: baseUrl ?? null },
    // The audit entry includes where the key is sent from now on.
    auditEntry(call, 'credential.put', { provider, label: label ?? null, ...defined({ origin }) }),
  );
  const { engine } = call.context.control;
  const { tenantId } = call.caller;
  // Stored memories may wait for this credential to be embedded, and sessions for their next turn.
  engine.embedders?.memoryAdded(tenantId);
  const blocked = { status: 'blocked', harness: nativeHarness } as const;
  const { items } = await storeOf(call).sessions.list(blocked, { limit: maxWoken });
  for (const { id: sessionId } of items) engine.sessionDue?.({ tenantId, sessionId });
  return presentCredential(call, record);
};

/** Any others look for their credential themselves, some seconds later. */
const maxWoken = 100;

export const listCredentials: Handler<'listCredentials'> = async (call) => {
  const records = await call.context.vault.list(call.caller.tenantId);
  const credentials = records.map((record) => presentCredential(call, record));
  return { credentials, nextCursor: null };
};

export const deleteCredential: Handler<'deleteCredential'> = async (call) => {
  const { provider } = call.params;
  const audit = auditEntry(call, 'credential.deleted', { provider });
  await call.context.vault.delete({ tenantId: call.caller.tenantId, provider }, audit);
};

/** Checks the URL itself; the addresses that its name resolves to are checked on every connection. */
export function checkUrl(call: ApiRequest, path: string, url: string): void {
  try {
    call.context.guards.of(call.caller.tenantId).checkUrl(new URL(url));
  } catch (error) {
    if (!(error instanceof UrlRefused)) throw error;
    const { message } = error;
    throw new RelayError('base_url_refused', `${path}: ${message}`, {
      details: [{ path, message }],
    });
  }
}

function presentCredential({ context }: ApiRequest, record: CredentialRecord) {
  const { provider, label, baseUrl, last4, updatedAt } = record;
  return {
    provider,
    label,
    baseUrl: baseUrl ?? undefined,
    last4,
    ...(context.vault.isFromEnvironment(record) && { source: 'environment' as const }),
    updatedAt: iso(updatedAt),
  };
}
