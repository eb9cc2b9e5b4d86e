/** Who is signed in, and what they may do: pages show only that. */
import type { Scope } from '@relay/protocol/wire';
import { useQuery } from '@tanstack/react-query';
import { client } from './client.ts';

export function useAccount() {
  return useQuery({
    queryKey: ['account'],
    queryFn: ({ signal }) => client.keys.current({ signal }),
  });
}

/** Whether the person who is signed in has a scope. */
export function useMay(scope: Scope): boolean {
  const { data } = useAccount();
  return data?.scopes.includes(scope) ?? false;
}
