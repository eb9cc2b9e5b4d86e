/** Whether the audit trail in a backup is whole, without any server: nothing but a copy is opened. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { uuidv7 } from 'uuidv7';
import { AuditSigner } from '../audit/signer.ts';
import { verifyTrail, type Verdict } from '../audit/verify.ts';
import { ConfigError, readConfig } from '../config/config.ts';
import { openStore } from '../open-store.ts';
import { masterKeys } from '../secrets/vault/master-key.ts';
import { derive, openRootKey } from '../secrets/vault/root-key.ts';
import type { Place } from './place.ts';
import { restoreBackup } from './restore.ts';

export interface VerifyBackupOptions {
  readonly backup: string;
  /** The master key, if it is neither in the backup nor in the environment. */
  readonly keyFile?: string | undefined;
  /** By its name. */
  readonly tenant: string;
  /** A head that was put aside. */
  readonly known?: { readonly seq: number; readonly hash: string } | undefined;
}

export async function verifyBackup(place: Place, options: VerifyBackupOptions): Promise<Verdict> {
  const { backup, keyFile, tenant: name, known } = options;
  const folder = mkdtempSync(join(tmpdir(), 'relay-verify-'));
  const env = { ...place.env, RELAY_DATA_DIR: folder, RELAY_DATABASE_URL: undefined };
  try {
    restoreBackup({ ...place, env }, { backup, keyFile });
    const config = readConfig(env, place.cwd);
    const opened = await openStore(config, 'server');
    try {
      const { store } = opened;
      const tenant = await store.findTenant(name);
      if (tenant === undefined) throw new ConfigError(`The backup has no tenant ${name}`);
      const rootKey = await openRootKey(store, masterKeys(config));
      const notary = new AuditSigner(derive(rootKey, 'audit'), { next: uuidv7 });
      const { audit: trail } = store.tenant(tenant.id);
      const heads = known === undefined ? [] : [known];
      return await verifyTrail({ tenantId: tenant.id, trail, notary }, heads);
    } finally {
      await opened.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
