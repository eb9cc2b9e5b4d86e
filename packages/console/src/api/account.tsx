/** Who is signed in, and what they may do: pages show only that. */
import type { Scope } from '@relay/protocol/wire';
import { useQuery } from '@tanstack/react-query';
import { client } from './client.ts';

export function useAccount() {
  return useQuery({
    queryKey: ['account'],
    queryFn: ({ signal }) => client.keys.current({ signal }),
    // Without it there is no page, and no feed that would say when the server is back.
    refetchInterval: ({ state }) =>
      state.status === 'error' && state.data === undefined ? 3_000 : false,
  });
}

/** Whether the person who is signed in has a scope. */
export function useMay(scope: Scope): boolean {
  const { data } = useAccount();
  return data?.scopes.includes(scope) ?? false;
}
