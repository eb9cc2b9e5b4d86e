/** The numbers in the navigation: what waits for a person. */
import { useEffect } from 'react';
import { approvals, followApprovals, usePendingApprovals } from '../api/approvals.ts';

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
  const count = pending.length === 0 ? undefined : `${pending.length}${isComplete ? '' : '+'}`;
  useEffect(() => {
    document.title = count === undefined ? 'Relay' : `(${count}) Relay`;
  }, [count]);
  return { '/inbox': count };
}
