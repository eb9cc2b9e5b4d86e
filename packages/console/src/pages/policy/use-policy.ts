/** The saved policy for all agents or one, and the changes to it that are not saved yet. */
import { defined } from '@relay/protocol/wire';
import { useQuery } from '@tanstack/react-query';
import { client } from '../../api/client.ts';
import { queries } from '../../api/queries.ts';
import { type Draft, isSameRules } from './draft.ts';

export function usePolicy(agent: string | undefined) {
  return useQuery({
    queryKey: ['policy', agent ?? null],
    queryFn: ({ signal }) => client.policy.get(defined({ agent }), { signal }),
    // Others change it too, and the feed does not say so.
    staleTime: 0,
  });
}

const draftKey = (agent: string | undefined) => ['policy-draft', agent ?? null];

/** Kept while the console is open, and gone with the sign-in, like everything in this cache. */
export function useDraft(agent: string | undefined): Draft | null {
  const { data } = useQuery<Draft | null>({
    queryKey: draftKey(agent),
    queryFn: () => null,
    enabled: false,
    initialData: null,
    staleTime: Infinity,
    gcTime: Infinity,
  });
  return data;
}

/** A draft without changes is none. */
export function setDraft(agent: string | undefined, draft: Draft | null): void {
  const isChanged = draft !== null && !isSameRules(draft.base, draft.rules);
  queries.setQueryData(draftKey(agent), isChanged ? draft : null);
}

export function useTools() {
  return useQuery({
    queryKey: ['tools'],
    queryFn: ({ signal }) => client.tools({ signal }),
  });
}
