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
import { SqlTenantStore, type TenantParts } from './tenant-store.ts';

/** `undefined` for a message of another version. */
export function decodeHint(message: string): Hint | undefined {
  try {
    const hint = JSON.parse(message) as Hint;
    return hintKinds.has(hint.kind) ? hint : undefined;
  } catch {
    return undefined;
  }
}

const hintKinds: ReadonlySet<unknown> = new Set<Hint['kind']>([
  'journal',
  'run',
  'approval',
  'wake',
  'tenant',
]);

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
    // A run that is released although it can continue: another node may claim it.
    const isOver = status !== undefined && isEnded(status);
    if (append.release === true && status !== 'waiting' && !isOver) this.#notifyRun(runId, 'wake');
    return outcome;
  }

  override async decideApproval(decision: ApprovalDecision): Promise<boolean> {
    const accepted = await super.decideApproval(decision);
    if (accepted) {
      this.#notifyRun(decision.runId, 'wake');
      this.#notifyApproval(decision.approvalId);
    }
    return accepted;
  }

  override async postResult(posted: PostedResult): Promise<boolean> {
    const accepted = await super.postResult(posted);
    if (accepted) this.#notifyRun(posted.runId, 'wake');
    return accepted;
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
    if (updated) this.#notifyTenant();
    return updated;
  }

  override async revokeKey(
    keyId: string,
    at: number,
    audit?: readonly NewAudit[],
  ): Promise<boolean> {
    const revoked = await super.revokeKey(keyId, at, audit);
    if (revoked) this.#notifyTenant();
    return revoked;
  }

  override async putCredential(
    record: CredentialRecord,
    audit?: readonly NewAudit[],
  ): Promise<void> {
    await super.putCredential(record, audit);
    this.#notifyTenant();
  }

  override async deleteCredential(provider: string, audit?: readonly NewAudit[]): Promise<boolean> {
    const deleted = await super.deleteCredential(provider, audit);
    if (deleted) this.#notifyTenant();
    return deleted;
  }

  #notifyRun(runId: string, kind: 'run' | 'wake'): void {
    this.#notify({ kind, tenantId: this.tenantId, runId });
  }

  #notifyApproval(approvalId: string): void {
    this.#notify({ kind: 'approval', tenantId: this.tenantId, approvalId });
  }

  #notifyTenant(): void {
    this.#notify({ kind: 'tenant', tenantId: this.tenantId });
  }

  #notify(hint: Hint): void {
    this.#hints.send(JSON.stringify(hint));
  }
}
