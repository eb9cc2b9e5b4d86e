import { agentsQuery, modelsQuery } from '../../api/catalog.ts';
import { queries } from '../../api/queries.ts';
import { type Choice, resolved } from './choice.ts';

/** Who answers: a message may be sent before the page knows who there is. */
export async function resolveChoice(choice: Choice): Promise<Choice> {
  if (choice.model !== undefined) return choice;
  const [agents, models] = await Promise.all([
    queries.ensureQueryData(agentsQuery),
    queries.ensureQueryData(modelsQuery),
  ]);
  return resolved(choice, agents, models);
}
