/** Handles hints from other nodes. A hint only says where to look; this node reads the store itself. */
import type { Hint, Supervisor, SystemStore } from '@relay/core';
import type { BudgetChecker } from '../http/budgets.ts';
import type { Feed } from '../streaming/feed.ts';
import type { Hub } from '../streaming/hub.ts';
import type { OpenStreams } from '../streaming/open-streams.ts';
import type { Vault } from '../secrets/vault.ts';

export interface NodeListeners {
  readonly store: SystemStore;
  readonly hub: Hub;
  readonly feed: Feed;
  readonly supervisor: Supervisor;
  readonly budgets: BudgetChecker;
  readonly streams: OpenStreams;
  readonly vault: Pick<Vault, 'changed'>;
}

export function subscribeToNodes(listeners: NodeListeners): () => void {
  return listeners.store.listen((hint) => handle(listeners, hint));
}

function handle(
  { hub, feed, supervisor, budgets, streams, vault }: NodeListeners,
  hint: Hint,
): void {
  switch (hint.kind) {
    case 'journal':
      hub.publish(hint.runId, []);
      return;
    case 'run':
      hub.publish(hint.runId, []);
      feed.add(hint.tenantId, { kind: 'run', id: hint.runId });
      return;
    case 'approval':
      feed.add(hint.tenantId, { kind: 'approval', id: hint.approvalId });
      return;
    case 'wake':
      supervisor.wake(hint);
      return;
    case 'tenant':
      budgets.invalidate(hint.tenantId);
      vault.changed(hint.tenantId);
      break;
    case 'all':
      hub.invalidate();
      feed.addToAll({ kind: 'all' });
      vault.changed();
      break;
  }
  // A failure is harmless: the supervisor scans again within a second.
  supervisor.refreshPausedTenants().catch(() => undefined);
  void streams.checkKeys();
}
