import { uuidv7 } from 'uuidv7';
import { ConfigError, readConfig } from '../config.ts';
import { type IssuedKey, issueBootstrapKey } from '../keys.ts';
import { openStore } from '../open-store.ts';
import type { Place } from './place.ts';

const tenantForm = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

/** A key with all scopes, for a tenant that is made if it is not there; also beside a running server. */
export async function makeTenantKey({ env, cwd }: Place, tenant: string): Promise<IssuedKey> {
  if (!tenantForm.test(tenant)) {
    throw new ConfigError(`--tenant must be letters, digits, "-" and "_", not "${tenant}"`);
  }
  const opened = await openStore(readConfig(env, cwd), 'beside');
  try {
    return await issueBootstrapKey(opened.store, { next: uuidv7 }, tenant);
  } finally {
    await opened.close();
  }
}
