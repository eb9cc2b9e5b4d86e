import { agentsQuery, modelsQuery } from '../../api/catalog.ts';
import { queries } from '../../api/queries.ts';
import { type Choice, resolved } from './choice.ts';

type Agents = Awaited<ReturnType<typeof agentsQuery.queryFn>>;
type Models = Awaited<ReturnType<typeof modelsQuery.queryFn>>;

/**
 * Who answers: a message may be sent before the page knows who there is. What is not cached is read apart
 * from the cache, whose reads are cancelled when the feed reports a change.
 */
export async function resolveChoice(choice: Choice): Promise<Choice> {
  if (choice.model !== undefined) return choice;
  const { signal } = new AbortController();
  const [agents, models] = await Promise.all([
    queries.getQueryData<Agents>(agentsQuery.queryKey) ?? agentsQuery.queryFn({ signal }),
    queries.getQueryData<Models>(modelsQuery.queryKey) ?? modelsQuery.queryFn({ signal }),
  ]);
  return resolved(choice, agents, models);
}
