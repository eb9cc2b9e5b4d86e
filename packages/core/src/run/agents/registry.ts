import { RelayError } from '@relay/protocol';
import { didYouMean } from '@relay/protocol/display';
import type { AgentDefinition, AgentRegistry } from '../../ports/index.ts';

const form = /^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,63}$/u;

/** Agents by name. Invalid names and handoffs to unknown agents throw at once. */
export function createAgentRegistry(agents: readonly AgentDefinition[]): AgentRegistry {
  const byName = new Map<string, AgentDefinition>();
  for (const agent of agents) {
    const { name } = agent;
    if (typeof name !== 'string' || !form.test(name)) {
      throw new TypeError(
        `Invalid agent name ${JSON.stringify(name)}: use 1 to 64 letters, digits, spaces, ".", "_" or "-"`,
      );
    }
    if (byName.has(name)) throw new TypeError(`Two agents are named ${name}`);
    byName.set(name, agent);
  }
  for (const { name, handoffs = [] } of agents) {
    for (const to of handoffs) {
      if (!byName.has(to)) {
        const others = [...byName.keys()].filter((each) => each !== name);
        const hint = didYouMean(to, others);
        throw new TypeError(`The agent ${name} hands off to ${to}, which does not exist${hint}`);
      }
      if (to === name) throw new TypeError(`The agent ${name} hands off to itself`);
    }
  }
  const all = [...byName.values()];
  return { find: (name) => byName.get(name), list: () => all };
}

const defaultAgent = 'assistant';

/** `assistant` exists even if it is not defined. Throws `unknown_agent`. */
export function agentNamed(agents: AgentRegistry, name = defaultAgent): AgentDefinition {
  const agent = agents.find(name);
  if (agent !== undefined) return agent;
  if (name === defaultAgent) return { name };
  throw new RelayError('unknown_agent', `There is no agent named ${name}`, {
    details: [{ path: 'agent', message: 'Unknown agent' }],
  });
}

/** All that `agentNamed` finds, the default agent first. */
export function namedAgents(
  agents: AgentRegistry,
): readonly (AgentDefinition & { readonly isDefault: boolean })[] {
  const others = agents.list().filter(({ name }) => name !== defaultAgent);
  return [agentNamed(agents), ...others].map((agent) => ({
    ...agent,
    isDefault: agent.name === defaultAgent,
  }));
}
