import { auditRecordsOf } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { auditWriter, operatorAuditEntry } from '../audit/operator-entries.ts';
import { ConfigError, readConfig, type Installation } from '../config/config.ts';
import { type IssuedKey, issueBootstrapKey, type KeyIssue } from '../secrets/keys.ts';
import { withStore } from '../config/open-store.ts';
import { masterKeys, openRootKey } from '../secrets/master-key.ts';
import { setWorkspace } from '../workspaces/workspaces.ts';

interface TenantKeyOptions extends Pick<KeyIssue, 'name' | 'isForFirstHolder'> {
  readonly workspace?: string | undefined;
}

const tenantForm = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

/**
 * Creates a key with all scopes, and the tenant if it does not exist; also beside a running server.
 * `workspace` is the folder that the tenant's tools work in from now on.
 */
export async function makeTenantKey(
  { env, cwd }: Installation,
  tenant: string,
  { workspace, ...key }: TenantKeyOptions = {},
): Promise<IssuedKey> {
  if (!tenantForm.test(tenant)) {
    throw new ConfigError(`--tenant must be letters, digits, "-" and "_", not "${tenant}"`);
  }
  const config = readConfig(env, cwd);
  const ids = { next: uuidv7 };
  return withStore(config, 'shared', async (store) => {
    const audit = auditWriter(await openRootKey(store, masterKeys(config)));
    if (workspace !== undefined) {
      await setWorkspace(store, { config, ids, tenant, folder: workspace, cwd, audit });
    }
    return issueBootstrapKey(store, ids, { tenant, ...key, by: 'bootstrap', audit });
  });
}

/** Of a key that `makeTenantKey` created. */
export async function revokeTenantKey(
  { env, cwd }: Installation,
  { tenantId, keyId }: IssuedKey,
): Promise<void> {
  const config = readConfig(env, cwd);
  await withStore(config, 'shared', async (store) => {
    const audit = auditWriter(await openRootKey(store, masterKeys(config)));
    const entry = operatorAuditEntry('bootstrap', 'key.revoked', { keyId, name: 'bootstrap' });
    const entries = auditRecordsOf({ audit }, tenantId, [entry]);
    await store.tenant(tenantId).revokeKey(keyId, Date.now(), entries);
  });
}
