/** Decisions that are on their way to the server, and those that it refused, with the reason in words. */
import type { DecisionBody } from '@relay/protocol/wire';
import { RelayApiError } from '@relay/sdk';
import { useSyncExternalStore } from 'react';
import { approvals } from '../../api/approvals.ts';
import { client } from '../../api/client.ts';
import { onFeedEvent } from '../../api/feed.ts';
import { queries } from '../../api/queries.ts';
import { errorText } from '../../ui/notice.tsx';

/** A JSON value of a request. */
export type JsonInput = NonNullable<DecisionBody['input']> | null;

export type Decision =
  /** What is being done, such as "Approving". */
  | { readonly status: 'sending'; readonly label: string }
  | {
      readonly status: 'refused';
      readonly message: string;
      /** The server did not answer: the message is over when it does. */
      readonly isUnreachable: boolean;
    };

const decisions = new Map<string, Decision>();
const watchers = new Set<() => void>();

function set(id: string, decision: Decision | undefined): void {
  if (decision === undefined) decisions.delete(id);
  else decisions.set(id, decision);
  for (const watcher of watchers) watcher();
}

onFeedEvent(({ kind }) => {
  if (kind !== 'connected') return;
  for (const [id, decision] of decisions) {
    if (decision.status === 'refused' && decision.isUnreachable) set(id, undefined);
  }
});

export function useDecision(id: string): Decision | undefined {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    () => decisions.get(id),
  );
}

export function dismissRefusal(id: string): void {
  if (decisions.get(id)?.status === 'refused') set(id, undefined);
}

/** Sends a decision. Returns whether the server has accepted it. */
export async function decide(id: string, label: string, body: DecisionBody): Promise<boolean> {
  if (decisions.get(id)?.status === 'sending') return false;
  set(id, { status: 'sending', label });
  try {
    approvals.put(await client.approvals.decide(id, body));
    set(id, undefined);
    if (body.always === true) void queries.invalidateQueries({ queryKey: ['grants'] });
    return true;
  } catch (error) {
    // The approval itself says what has become of it.
    approvals.change(id);
    const isUnreachable = error instanceof RelayApiError && error.code === 'network_error';
    set(id, { status: 'refused', message: refusalText(error), isUnreachable });
    return false;
  }
}

function refusalText(error: unknown): string {
  if (error instanceof RelayApiError && error.code === 'approval_changed') {
    return 'The call was changed while you looked at it, so nothing was decided. Look at it again.';
  }
  if (error instanceof RelayApiError && error.code === 'approval_conflict') {
    return 'Your decision was not used: another one came first.';
  }
  return `Not decided. ${errorText(error)}`;
}
