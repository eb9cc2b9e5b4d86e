/** The numbers in the navigation: what waits for a person. */
import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { approvals, followApprovals, usePendingApprovals } from '../api/approvals.ts';
import { sessionsWith } from '../api/sessions.ts';

/** Keyed by the path of the page. */
export function useCounts(): Readonly<Record<string, string | undefined>> {
  useEffect(() => {
    const stop = followApprovals(approvals);
    return () => {
      stop();
      approvals.clear();
    };
  }, []);
  const { pending, isComplete } = usePendingApprovals();
  const { data: waiting = [] } = useQuery(sessionsWith('waiting'));
  const { data: blocked = [] } = useQuery(sessionsWith('blocked'));
  const requests = countText(pending.length, isComplete);
  useEffect(() => {
    document.title = requests === undefined ? 'Relay' : `(${requests}) Relay`;
  }, [requests]);
  return { '/inbox': requests, '/sessions': countText(waiting.length + blocked.length, true) };
}

/** `isAll`: there are no more than those that were counted. */
function countText(count: number, isAll: boolean): string | undefined {
  return count === 0 ? undefined : `${count}${isAll ? '' : '+'}`;
}
