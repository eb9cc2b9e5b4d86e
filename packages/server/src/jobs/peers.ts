/** What this node does about what others have stored. It looks for itself; hints only say where. */
import type { Hint, Supervisor, SystemStore } from '@relay/core';
import type { BudgetChecker } from './budgets.ts';
import type { Feed } from '../streaming/feed.ts';
import type { Hub } from '../streaming/hub.ts';
import type { OpenStreams } from '../streaming/open-streams.ts';

export interface PeerListeners {
  readonly store: SystemStore;
  readonly hub: Hub;
  readonly feed: Feed;
  readonly supervisor: Supervisor;
  readonly budgets: BudgetChecker;
  readonly streams: OpenStreams;
}

/** Returns how to stop. */
export function subscribeToPeers(hearers: PeerListeners): () => void {
  return hearers.store.listen((hint) => hear(hearers, hint));
}

function hear({ hub, feed, supervisor, budgets, streams }: PeerListeners, hint: Hint): void {
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
      budgets.forget(hint.tenantId);
      lookForPauses(supervisor);
      streams.look();
      return;
    case 'all':
      hub.invalidate();
      feed.addToAll({ kind: 'all' });
      lookForPauses(supervisor);
      streams.look();
  }
}

/** If it fails, the next look around comes within a second. */
function lookForPauses(supervisor: Supervisor): void {
  supervisor.lookForPauses().catch(() => undefined);
}
