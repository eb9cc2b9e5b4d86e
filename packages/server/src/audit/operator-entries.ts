/**
 * Audit entries for what operators do on the server itself, without a key. An entry belongs to the
 * trail of the tenant it concerns; entries about the whole store belong to the trail of `default`.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type AuditEntry,
  auditRecordsOf,
  type AuditFact,
  type Engine,
  type SystemStore,
} from '@relay/core';
import type { AuditAction } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { type MasterKeys, derive } from '../secrets/master-key.ts';
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

export function auditWriter(rootKey: Buffer): Write {
  const signer = new AuditSigner(derive(rootKey, 'audit'));
  return (tenantId, entry) => signer.write(tenantId, entry);
}

export function auditRotation(
  store: SystemStore,
  audit: Write,
  [current]: MasterKeys,
): Promise<void> {
  const what = { masterKeyId: current.id };
  return append(store, audit, operatorAuditEntry('operator', 'store.key-rotated', what));
}

const restoredFile = 'restored.json';

/** A restored store is not open yet, so the first start writes the audit entry. */
export function recordRestore(folder: string, backupAt: string): void {
  const record = JSON.stringify({ backupAt, restoredAt: new Date().toISOString() });
  writeFileSync(join(folder, restoredFile), `${record}\n`, { mode: 0o600, flush: true });
}

export async function auditRestore(
  store: SystemStore,
  audit: Engine['audit'],
  dataDir: string,
): Promise<void> {
  const path = join(dataDir, restoredFile);
  if (audit === undefined || !existsSync(path)) return;
  const { backupAt, restoredAt } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>;
  const what = { backupAt: backupAt ?? null, restoredAt: restoredAt ?? null };
  await append(store, audit, operatorAuditEntry('operator', 'store.restored', what));
  rmSync(path);
}

/** For operations without a commit of their own. Written first: at least once. */
async function append(store: SystemStore, audit: Write, entry: AuditEntry): Promise<void> {
  const { id } = await store.ensureTenant({ id: uuidv7(), name: 'default', at: entry.at });
  await store.tenant(id).audit.add(auditRecordsOf({ audit }, id, [entry]));
}
