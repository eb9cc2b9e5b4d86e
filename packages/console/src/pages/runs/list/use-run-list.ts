/** The runs that match a filter, newest first, kept up to date by the feed. */
import type { Run } from '@relay/protocol/wire';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { client } from '../../../api/client.ts';
import { onFeedEvent } from '../../../api/feed.ts';
import { queries } from '../../../api/queries.ts';
import { mergeFirstPage, queryOf, type RunFilter } from './run-filter.ts';

interface Page {
  readonly items: readonly Run[];
  readonly nextCursor: string | null;
}

interface Pages {
  readonly pages: Page[];
  readonly pageParams: (string | undefined)[];
}

const limit = 60;
const burstMs = 250;

export function useRunList(filter: RunFilter) {
  // Not `runs`: that is read again page by page after each change of any run.
  const queryKey = useMemo(() => ['run-list', filter], [filter]);
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      client.runs.list({ ...queryOf(filter, Date.now()), limit }, { signal }).page(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: Page) => last.nextCursor ?? undefined,
    // The feed is read while the page is open only.
    staleTime: 0,
  });
  useEffect(() => keepCurrent(queryKey, filter), [queryKey, filter]);
  const runs = useMemo(() => query.data?.pages.flatMap(({ items }) => items) ?? [], [query.data]);
  return { ...query, runs };
}

/** After a change the first page is read again, and each older run that has changed by itself. */
function keepCurrent(queryKey: readonly unknown[], filter: RunFilter): () => void {
  const changed = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const refresh = async () => {
    timer = undefined;
    const ids = new Set(changed);
    changed.clear();
    const loaded = queries.getQueryData<Pages>(queryKey);
    if (loaded === undefined) return;
    const first = await client.runs.list({ ...queryOf(filter, Date.now()), limit }).page();
    queries.setQueryData<Pages>(queryKey, (current) => {
      if (current === undefined) return current;
      const items = mergeFirstPage(
        current.pages.flatMap((page) => page.items),
        first.items,
        first.nextCursor !== null,
      );
      const isShort = items.length === first.items.length;
      const nextCursor = isShort ? first.nextCursor : (current.pages.at(-1)?.nextCursor ?? null);
      return { pages: [{ items, nextCursor }], pageParams: [undefined] };
    });
    const older = loaded.pages
      .flatMap((page) => page.items)
      .filter(({ id }) => ids.has(id) && !first.items.some((run) => run.id === id));
    await Promise.all(older.slice(0, limit).map(({ id }) => refreshOne(queryKey, filter, id)));
  };
  const stop = onFeedEvent((event) => {
    if (event.kind === 'run') changed.add(event.id);
    else if (event.kind !== 'connected' && event.kind !== 'all') return;
    // A server that does not answer is shown by the frame; the next `connected` reads again.
    timer ??= setTimeout(() => void refresh().catch(() => undefined), burstMs);
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}

async function refreshOne(
  queryKey: readonly unknown[],
  filter: RunFilter,
  id: string,
): Promise<void> {
  const run = await client.runs.get(id);
  const isMatch = filter.statuses.length === 0 || filter.statuses.includes(run.status);
  queries.setQueryData<Pages>(queryKey, (current) =>
    current === undefined
      ? current
      : {
          ...current,
          pages: current.pages.map((page) => ({
            ...page,
            items: page.items.flatMap((each) => (each.id !== id ? each : isMatch ? run : [])),
          })),
        },
  );
}
