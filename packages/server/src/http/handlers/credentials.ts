/** `/v1/credentials`: keys of providers go in, and never come out. */
import { type CredentialRecord, ProviderFailure } from '@relay/core';
import { type credentialBodySchema, RelayError } from '@relay/protocol';
import type { z } from 'zod';
import { Providers } from '../../outbound/providers.ts';
import { auditEntry } from './audit-entry.ts';
import type { Call, Handler } from './handler.ts';
import { iso } from '../views/run.ts';

export const putCredential: Handler = async (call) => {
  const { provider } = call.params as { provider: string };
  const { apiKey, label, baseUrl } = call.body as z.infer<typeof credentialBodySchema>;
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
  call.context.control.engine.embedders?.remembered(call.caller.tenantId);
  return presentCredential(record);
};

export const listCredentials: Handler = async (call) => {
  const records = await call.context.store.tenant(call.caller.tenantId).listCredentials();
  return { credentials: records.map(presentCredential), nextCursor: null };
};

export const deleteCredential: Handler = async (call) => {
  const { provider } = call.params as { provider: string };
  const told = auditEntry(call, 'credential.deleted', { provider });
  await call.context.store.tenant(call.caller.tenantId).deleteCredential(provider, told);
  call.reply.code(204);
  return undefined;
};

/** What can be seen of a URL now; where its name leads is seen with every connection. */
function checkBaseUrl(call: Call, baseUrl: string): void {
  try {
    call.context.guard.checkUrl(new URL(baseUrl));
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
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
    ...(baseUrl === null ? {} : { baseUrl }),
    last4,
    updatedAt: iso(updatedAt),
  };
}
