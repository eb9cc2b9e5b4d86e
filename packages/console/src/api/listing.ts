/** A list of the API that is read page by page. */
import type { Listing } from '@relay/sdk';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';

/** `list` makes the list for a signal; the first part of the key is its subject. */
export function useListing<Item>(
  queryKey: readonly unknown[],
  list: (options: { readonly signal: AbortSignal }) => Listing<Item>,
) {
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ signal, pageParam }) => list({ signal }).page(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    placeholderData: keepPreviousData,
    // The feed does not say that these have changed.
    staleTime: 0,
  });
  return {
    /** Undefined until the first page is there. */
    items: query.data?.pages.flatMap(({ items }) => items),
    error: query.error,
    hasMore: query.hasNextPage,
    isLoadingMore: query.isFetchingNextPage,
    loadMore: () => void query.fetchNextPage(),
    reload: () => void query.refetch(),
  };
}
