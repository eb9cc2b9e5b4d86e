/** A tenant's store that notifies other nodes, after the commit, of what it has stored. */
import type {
  Append,
  AppendOutcome,
  CreationOutcome,
  CredentialRecord,
  Hint,
  QueuedRunCommand,
  NewAudit,
  PostedResult,
  ApprovalDecision,
  RunCreation,
  TenantChange,
} from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { HintChannel } from './drivers/driver.ts';
import { encodeHint } from './codec/hints.ts';
import { SqlTenantStore, type TenantParts } from './tenant-store.ts';

export class NotifyingTenantStore extends SqlTenantStore {
  readonly #hints: HintChannel;

  constructor(parts: TenantParts & { readonly hints: HintChannel }, tenantId: string) {
    super(parts, tenantId);
    this.#hints = parts.hints;
  }

  override async createRun(creation: RunCreation): Promise<CreationOutcome> {
    const outcome = await super.createRun(creation);
    const { identity, lease } = creation;
    if (outcome.kind === 'created') {
      this.#notifyRun(identity.id, 'run');
      if (lease === null) this.#notifyRun(identity.id, 'wake');
    }
    return outcome;
  }

  override async append(append: Append): Promise<AppendOutcome> {
    const outcome = await super.append(append);
    if (outcome !== 'committed') return outcome;
    const { runId, events, progress, approvals = [], closeApprovals = [] } = append;
    const status = progress?.status;
    const hasChanged = events.some(({ type }) => type.startsWith('run.'));
    if (hasChanged) this.#notifyRun(runId, 'run');
    else if (events.length > 0) this.#notify({ kind: 'journal', runId });
    for (const { id } of approvals) this.#notifyApproval(id);
    for (const { approvalId } of closeApprovals) this.#notifyApproval(approvalId);
    for (const event of events) {
      if (event.type === 'approval.expiring') this.#notifyApproval(event.approvalId);
    }
    // Released although it could go on: another node may take it.
    const isOver = status !== undefined && isEnded(status);
    if (append.release === true && status !== 'waiting' && !isOver) this.#notifyRun(runId, 'wake');
    return outcome;
  }

  override async decideApproval(decision: ApprovalDecision): Promise<boolean> {
    const won = await super.decideApproval(decision);
    if (won) {
      this.#notifyRun(decision.runId, 'wake');
      this.#notifyApproval(decision.approvalId);
    }
    return won;
  }

  override async postResult(posted: PostedResult): Promise<boolean> {
    const counts = await super.postResult(posted);
    if (counts) this.#notifyRun(posted.runId, 'wake');
    return counts;
  }

  override async postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAudit[],
  ): Promise<boolean> {
    const posted = await super.postRunCommand(runId, queued, audit);
    if (posted) this.#notifyRun(runId, 'wake');
    return posted;
  }

  override async updateTenant(change: TenantChange, audit?: readonly NewAudit[]): Promise<boolean> {
    const updated = await super.updateTenant(change, audit);
    if (updated) this.#notify({ kind: 'tenant', tenantId: this.tenantId });
    return updated;
  }

  override async revokeKey(
    keyId: string,
    at: number,
    audit?: readonly NewAudit[],
  ): Promise<boolean> {
    const revoked = await super.revokeKey(keyId, at, audit);
    if (revoked) this.#notify({ kind: 'tenant', tenantId: this.tenantId });
    return revoked;
  }

  override async putCredential(
    record: CredentialRecord,
    audit?: readonly NewAudit[],
  ): Promise<void> {
    await super.putCredential(record, audit);
    this.#notify({ kind: 'tenant', tenantId: this.tenantId });
  }

  override async deleteCredential(provider: string, audit?: readonly NewAudit[]): Promise<boolean> {
    const deleted = await super.deleteCredential(provider, audit);
    if (deleted) this.#notify({ kind: 'tenant', tenantId: this.tenantId });
    return deleted;
  }

  #notifyRun(runId: string, kind: 'run' | 'wake'): void {
    this.#notify({ kind, tenantId: this.tenantId, runId });
  }

  #notifyApproval(approvalId: string): void {
    this.#notify({ kind: 'approval', tenantId: this.tenantId, approvalId });
  }

  #notify(hint: Hint): void {
    this.#hints.send(encodeHint(hint));
  }
}
