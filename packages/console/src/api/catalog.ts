/** The agents and models that a person can choose from: one shape per key, for every page. */
import { useQuery } from '@tanstack/react-query';
import { client } from './client.ts';

export const agentsQuery = {
  queryKey: ['agents'],
  queryFn: async ({ signal }: { readonly signal: AbortSignal }) =>
    (await client.agents.list({ signal }).page()).items,
};

export const modelsQuery = {
  queryKey: ['models'],
  queryFn: ({ signal }: { readonly signal: AbortSignal }) => client.models({ signal }),
};

export const useAgents = () => useQuery(agentsQuery);
export const useModels = () => useQuery(modelsQuery);
