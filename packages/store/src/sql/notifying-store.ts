/** A tenant's store that tells other nodes what it has stored: after the commit, and where to look. */
import type {
  Append,
  AppendOutcome,
  CreationOutcome,
  Hint,
  QueuedRunCommand,
  NewAudit,
  PostedResult,
  ApprovalDecision,
  RunCreation,
  TenantChange,
} from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { HintChannel } from '../drivers/driver.ts';
import { encodeHint } from './hints.ts';
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
      this.#tellOfRun(identity.id, 'run');
      if (lease === null) this.#tellOfRun(identity.id, 'wake');
    }
    return outcome;
  }

  override async append(append: Append): Promise<AppendOutcome> {
    const outcome = await super.append(append);
    if (outcome !== 'committed') return outcome;
    const { runId, events, progress, raise = [], close = [] } = append;
    const status = progress?.status;
    const hasChanged = events.some(({ type }) => type.startsWith('run.'));
    if (hasChanged) this.#tellOfRun(runId, 'run');
    else if (events.length > 0) this.#tell({ kind: 'journal', runId });
    for (const { id } of raise) this.#tellOfApproval(id);
    for (const { approvalId } of close) this.#tellOfApproval(approvalId);
    for (const event of events) {
      if (event.type === 'approval.expiring') this.#tellOfApproval(event.approvalId);
    }
    // It is given away, and not because only a person can bring it on.
    const isOver = status !== undefined && isEnded(status);
    if (append.release === true && status !== 'waiting' && !isOver) this.#tellOfRun(runId, 'wake');
    return outcome;
  }

  override async decideApproval(decision: ApprovalDecision): Promise<boolean> {
    const won = await super.decideApproval(decision);
    if (won) {
      this.#tellOfRun(decision.runId, 'wake');
      this.#tellOfApproval(decision.approvalId);
    }
    return won;
  }

  override async postResult(posted: PostedResult): Promise<boolean> {
    const counts = await super.postResult(posted);
    if (counts) this.#tellOfRun(posted.runId, 'wake');
    return counts;
  }

  override async postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAudit[],
  ): Promise<boolean> {
    const posted = await super.postRunCommand(runId, queued, audit);
    if (posted) this.#tellOfRun(runId, 'wake');
    return posted;
  }

  override async updateTenant(change: TenantChange, audit?: readonly NewAudit[]): Promise<boolean> {
    const updated = await super.updateTenant(change, audit);
    if (updated) this.#tell({ kind: 'tenant', tenantId: this.tenantId });
    return updated;
  }

  override async revokeKey(
    keyId: string,
    at: number,
    audit?: readonly NewAudit[],
  ): Promise<boolean> {
    const revoked = await super.revokeKey(keyId, at, audit);
    if (revoked) this.#tell({ kind: 'tenant', tenantId: this.tenantId });
    return revoked;
  }

  #tellOfRun(runId: string, kind: 'run' | 'wake'): void {
    this.#tell({ kind, tenantId: this.tenantId, runId });
  }

  #tellOfApproval(approvalId: string): void {
    this.#tell({ kind: 'approval', tenantId: this.tenantId, approvalId });
  }

  #tell(hint: Hint): void {
    this.#hints.tell(encodeHint(hint));
  }
}
