/** The numbers in the navigation: what waits for a person. */
import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { client } from '../api/client.ts';
import { sessionsWith } from '../api/sessions.ts';

/** Keyed by the path of the page. */
export function useCounts(): Readonly<Record<string, number | undefined>> {
  const { data: pending } = useQuery({
    queryKey: ['approvals', 'count'],
    // The server gives at most 200 per page; more are shown as "200+" by the inbox itself.
    queryFn: async ({ signal }) => {
      const page = await client.approvals
        .list({ status: 'pending', limit: 200 }, { signal })
        .page();
      return page.items.length;
    },
  });
  const { data: waiting = [] } = useQuery(sessionsWith('waiting'));
  const { data: blocked = [] } = useQuery(sessionsWith('blocked'));
  useEffect(() => {
    document.title = pending === undefined || pending === 0 ? 'Relay' : `(${pending}) Relay`;
  }, [pending]);
  return { '/inbox': pending, '/sessions': waiting.length + blocked.length };
}
