/** Which agent and which model answer the next message. */
import type { Agent, ModelList } from '@relay/sdk';

/** What a person has chosen, or what the conversation had last. */
export interface Choice {
  readonly agent: string | undefined;
  readonly model: string | undefined;
}

/** The agent and the model of the next message. A model that is not chosen is that of the agent. */
export function resolved(
  { agent: name, model }: Choice,
  agents: readonly Agent[],
  { models, defaultModel }: ModelList,
): Choice {
  const agent = agents.find((each) => each.name === name) ?? agents.find((each) => each.isDefault);
  return {
    agent: agent?.name ?? name,
    model: model ?? agent?.model ?? defaultModel ?? models[0]?.id,
  };
}

/** Whether nothing but the model `demo` can be used: no provider has a key. */
export function isDemoOnly({ models }: ModelList): boolean {
  return models.every(({ provider }) => provider === 'demo');
}
