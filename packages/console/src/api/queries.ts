/**
 * The cache of everything that was read from the server. The first part of a query key is what it is
 * about (`runs`, `approvals`, `sessions` …): the feed invalidates by it.
 */
import { RelayApiError } from '@relay/sdk';
import { QueryCache, QueryClient } from '@tanstack/react-query';

let onSignedOut: () => void = () => undefined;

/** Called when a response says that the sign-in has ended. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The client retries by itself, and the feed says what has changed.
      retry: false,
      staleTime: 60_000,
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
    },
    mutations: { retry: false },
  },
  queryCache: new QueryCache({
    onError: (error) => {
      if (error instanceof RelayApiError && error.status === 401) onSignedOut();
    },
  }),
});
