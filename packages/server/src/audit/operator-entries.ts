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

interface Restoration {
  readonly backupAt: string;
  readonly restoredAt: string;
  /** All tenants are paused before the first start continues anything. */
  readonly paused?: boolean;
}

/** A restored store is not open yet, so the first start pauses its tenants and writes the audit entry. */
export function recordRestore(folder: string, backupAt: string, paused: boolean): void {
  const restored: Restoration = { backupAt, restoredAt: new Date().toISOString(), paused };
  const record = JSON.stringify(restored);
  writeFileSync(join(folder, restoredFile), `${record}\n`, { mode: 0o600, flush: true });
}

/** To be called before anything of the store continues. */
export async function completeRestore(
  store: SystemStore,
  audit: Engine['audit'],
  dataDir: string,
): Promise<void> {
  const path = join(dataDir, restoredFile);
  if (audit === undefined || !existsSync(path)) return;
  const restored = JSON.parse(readFileSync(path, 'utf8')) as Restoration;
  const { backupAt, restoredAt, paused = false } = restored;
  if (paused) await pauseAll(store, audit);
  const what = { backupAt, restoredAt, paused };
  await append(store, audit, operatorAuditEntry('operator', 'store.restored', what));
  rmSync(path);
}

async function pauseAll(store: SystemStore, audit: Write): Promise<void> {
  const paused = new Set(await store.pausedTenants());
  const entry = operatorAuditEntry('operator', 'tenant.paused', {});
  for (const id of await store.tenantIds()) {
    if (paused.has(id)) continue;
    const change = { pausedAt: entry.at };
    await store.tenant(id).updateTenant(change, auditRecordsOf({ audit }, id, [entry]));
  }
}

/** For operations without a commit of their own. Written first: at least once. */
async function append(store: SystemStore, audit: Write, entry: AuditEntry): Promise<void> {
  const { id } = await store.ensureTenant({ id: uuidv7(), name: 'default', at: entry.at });
  await store.tenant(id).audit.add(auditRecordsOf({ audit }, id, [entry]));
}
