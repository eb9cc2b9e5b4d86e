/** The agents and models that a person can choose from. */
import { useQuery } from '@tanstack/react-query';
import { client } from '../../api/client.ts';

export function useAgents() {
  return useQuery({
    queryKey: ['agents'],
    queryFn: async ({ signal }) => (await client.agents.list({ signal }).page()).items,
  });
}

export function useModels() {
  return useQuery({
    queryKey: ['models'],
    queryFn: ({ signal }) => client.models({ signal }),
  });
}
