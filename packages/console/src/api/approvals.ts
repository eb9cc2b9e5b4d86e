/** The approvals of the tenant that wait for a person, kept up to date by the feed. */
import type { Approval, ApprovalsQuery } from '@relay/protocol/wire';
import { useEffect, useMemo, useSyncExternalStore } from 'react';
import { type ApprovalSource, ApprovalStore, type PendingApprovals } from './approval-store.ts';
import { client } from './client.ts';
import { onFeedEvent } from './feed.ts';

const perPage = 200;

const all: ApprovalSource = {
  page: (cursor) => client.approvals.list({ status: 'pending', limit: perPage }).page(cursor),
  get: async (id) => {
    const approval = await client.approvals.get(id);
    return { approval, isListed: approval.status === 'pending' };
  },
};

/** Those that the person who is signed in may decide, and has not voted on. */
const decidable: ApprovalSource = {
  page: (cursor) =>
    client.approvals.list({ status: 'pending', decidable: 'true', limit: perPage }).page(cursor),
  get: async (id) => {
    const approval = await client.approvals.get(id);
    return { approval, isListed: await isDecidable(approval) };
  },
};

/** Asks the server, which knows the policy and who has started the run. */
export async function isDecidable(approval: Approval): Promise<boolean> {
  if (approval.status !== 'pending') return false;
  const query: ApprovalsQuery = { decidable: 'true', limit: perPage, kind: approval.kind };
  for (const part of ['runId', 'sessionId', 'invocationId'] as const) {
    const id = approval[part];
    if (id !== undefined) query[part] = id;
  }
  for await (const { id } of client.approvals.list(query)) if (id === approval.id) return true;
  return false;
}

export const approvals = new ApprovalStore(all);

/** Keeps the approvals up to date until the returned function is called. */
export function followApprovals(store: ApprovalStore): () => void {
  void store.reload();
  return onFeedEvent((event) => {
    if (event.kind === 'approval') store.change(event.id);
    // Events may have been missed.
    else if (event.kind === 'connected' || event.kind === 'all') void store.reload();
  });
}

export function usePendingApprovals(store: ApprovalStore = approvals): PendingApprovals {
  return useSyncExternalStore(store.subscribe, store.state);
}

/** All pending approvals, or those that the person may decide. */
export function useApprovalStore(isMine: boolean): ApprovalStore {
  const store = useMemo(() => (isMine ? new ApprovalStore(decidable) : approvals), [isMine]);
  useEffect(() => {
    const stop = [store.readAll(), store === approvals ? () => undefined : followApprovals(store)];
    return () => stop.forEach((each) => each());
  }, [store]);
  return store;
}

/** One approval, whatever its status, kept up to date while it is shown. */
export function useApproval(id: string): {
  readonly approval: Approval | undefined;
  readonly error: unknown;
} {
  useEffect(() => approvals.show(id), [id]);
  const approval = useSyncExternalStore(approvals.subscribe, () => approvals.get(id));
  const error = useSyncExternalStore(approvals.subscribe, () => approvals.errorOf(id));
  return { approval, error };
}
