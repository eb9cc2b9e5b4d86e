/** The agents and models that a person can choose from. */
import { useQuery } from '@tanstack/react-query';
import { client } from '../../api/client.ts';
import { queries } from '../../api/queries.ts';
import { type Choice, resolved } from './choice.ts';

const agentsQuery = {
  queryKey: ['agents'],
  queryFn: async ({ signal }: { readonly signal: AbortSignal }) =>
    (await client.agents.list({ signal }).page()).items,
};

const modelsQuery = {
  queryKey: ['models'],
  queryFn: ({ signal }: { readonly signal: AbortSignal }) => client.models({ signal }),
};

export const useAgents = () => useQuery(agentsQuery);
export const useModels = () => useQuery(modelsQuery);

/** Who answers: a message may be sent before the page knows who there is. */
export async function resolveChoice(choice: Choice): Promise<Choice> {
  if (choice.model !== undefined) return choice;
  const [agents, models] = await Promise.all([
    queries.ensureQueryData(agentsQuery),
    queries.ensureQueryData(modelsQuery),
  ]);
  return resolved(choice, agents, models);
}
