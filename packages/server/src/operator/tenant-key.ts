import { uuidv7 } from 'uuidv7';
import { writerOf } from '../audit/operator.ts';
import { ConfigError, readConfig } from '../config/config.ts';
import { type IssuedKey, issueBootstrapKey } from '../secrets/keys.ts';
import { openStore } from '../open-store.ts';
import { masterKeys } from '../secrets/vault/master-key.ts';
import { openRootKey } from '../secrets/vault/root-key.ts';
import { setWorkspace } from '../workspace/workspaces.ts';
import type { Place } from './place.ts';

const tenantForm = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

/**
 * A key with all scopes, for a tenant that is made if it is not there; also beside a running server.
 * With a folder, the tenant's tools work there from now on.
 */
export async function makeTenantKey(
  { env, cwd }: Place,
  tenant: string,
  workspace?: string,
): Promise<IssuedKey> {
  if (!tenantForm.test(tenant)) {
    throw new ConfigError(`--tenant must be letters, digits, "-" and "_", not "${tenant}"`);
  }
  const config = readConfig(env, cwd);
  const opened = await openStore(config, 'beside');
  const ids = { next: uuidv7 };
  try {
    const { store } = opened;
    const audit = writerOf(await openRootKey(store, masterKeys(config)));
    if (workspace !== undefined) {
      await setWorkspace(store, { config, ids, tenant, folder: workspace, cwd, audit });
    }
    return await issueBootstrapKey(store, ids, { tenant, by: 'bootstrap', audit });
  } finally {
    await opened.close();
  }
}
