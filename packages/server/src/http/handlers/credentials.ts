/** `/v1/credentials`: keys of providers go in, and never come out. */
import type { CredentialRecord } from '@relay/core';
import { UrlRefused } from '@relay/models';
import { RelayError } from '@relay/protocol';
import { Providers } from '../../outbound/providers.ts';
import { auditEntry, type Call, type Handler } from './handler.ts';
import { iso } from '../views/time.ts';

export const putCredential: Handler<'putCredential'> = async (call) => {
  const { provider } = call.params;
  const { apiKey, label, baseUrl } = call.body;
  if (baseUrl === undefined && !Providers.isKnown(provider)) {
    throw new RelayError('invalid_request', `baseUrl: Relay does not know where ${provider} is`, {
      details: [{ path: 'baseUrl', message: 'Required for this provider' }],
    });
  }
  if (baseUrl !== undefined) checkBaseUrl(call, baseUrl);
  const place = { tenantId: call.caller.tenantId, provider };
  const given = { apiKey, label: label ?? null, baseUrl: baseUrl ?? null };
  // Where the key is sent from now on matters as much as the key.
  const origin = baseUrl === undefined ? {} : { origin: new URL(baseUrl).origin };
  const told = auditEntry(call, 'credential.put', { provider, label: given.label, ...origin });
  const record = await call.context.vault.put(place, given, told);
  // What is remembered already may have waited for it.
  call.context.control.engine.embedders?.memoryAdded(call.caller.tenantId);
  return presentCredential(record);
};

export const listCredentials: Handler<'listCredentials'> = async (call) => {
  const records = await call.context.store.tenant(call.caller.tenantId).listCredentials();
  return { credentials: records.map(presentCredential), nextCursor: null };
};

export const deleteCredential: Handler<'deleteCredential'> = async (call) => {
  const { provider } = call.params;
  const told = auditEntry(call, 'credential.deleted', { provider });
  await call.context.vault.delete({ tenantId: call.caller.tenantId, provider }, told);
};

/** What can be seen of a URL now; where its name leads is seen with every connection. */
function checkBaseUrl(call: Call, baseUrl: string): void {
  try {
    call.context.guard.checkUrl(new URL(baseUrl));
  } catch (error) {
    if (!(error instanceof UrlRefused)) throw error;
    throw new RelayError('base_url_refused', `baseUrl: ${error.message}`, {
      details: [{ path: 'baseUrl', message: error.message }],
    });
  }
}

function presentCredential(record: CredentialRecord) {
  const { provider, label, baseUrl, last4, updatedAt } = record;
  return {
    provider,
    label,
    baseUrl: baseUrl ?? undefined,
    last4,
    updatedAt: iso(updatedAt),
  };
}
