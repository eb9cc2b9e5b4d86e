/**
 * What operators do with the commands of this machine, without any key: it stands in the trail of the
 * tenant that it concerns. What concerns the whole store stands in the trail of `default`.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type AuditEntry,
  audited,
  type AuditFact,
  type Engine,
  type SystemStore,
} from '@relay/core';
import type { AuditAction } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import type { MasterKeys } from '../secrets/vault/master-key.ts';
import { derive } from '../secrets/vault/root-key.ts';
import { AuditSigner } from './signer.ts';

type Write = NonNullable<Engine['audit']>;

export function operatorAuditEntry(
  by: string,
  action: AuditAction,
  what: Readonly<Record<string, AuditFact>>,
): AuditEntry {
  const who = { type: 'system', id: by.replace(' ', '-'), name: by } as const;
  return { at: Date.now(), who, action, what, why: null };
}

export function writerOf(rootKey: Buffer): Write {
  const notary = new AuditSigner(derive(rootKey, 'audit'), { next: uuidv7 });
  return (tenantId, entry) => notary.write(tenantId, entry);
}

export function tellOfRotation(
  store: SystemStore,
  audit: Write,
  [current]: MasterKeys,
): Promise<void> {
  const what = { masterKeyId: current.id };
  return tell(store, audit, operatorAuditEntry('operator', 'store.key-rotated', what));
}

const restoredFile = 'restored.json';

/** A store that comes from a backup has nobody yet who could write into its trail. */
export function noteRestore(folder: string, backupAt: string): void {
  const note = JSON.stringify({ backupAt, restoredAt: new Date().toISOString() });
  writeFileSync(join(folder, restoredFile), `${note}\n`, { mode: 0o600, flush: true });
}

/** The first start after a restore says so; what happened between the backup and it is gone. */
export async function tellOfRestore(
  store: SystemStore,
  audit: Engine['audit'],
  dataDir: string,
): Promise<void> {
  const path = join(dataDir, restoredFile);
  if (audit === undefined || !existsSync(path)) return;
  const { backupAt, restoredAt } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>;
  const what = { backupAt: backupAt ?? null, restoredAt: restoredAt ?? null };
  await tell(store, audit, operatorAuditEntry('operator', 'store.restored', what));
  rmSync(path);
}

/** For what has no commit of its own: told first, so that it is told twice rather than never. */
async function tell(store: SystemStore, audit: Write, deed: AuditEntry): Promise<void> {
  const { id } = await store.ensureTenant({ id: uuidv7(), name: 'default', at: deed.at });
  await store.tenant(id).audit.add(audited({ audit }, id, [deed]));
}
