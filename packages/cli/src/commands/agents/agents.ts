import { nearestTo } from '@relay/protocol/display';
import type { Agent, RelayClient } from '@relay/sdk';
import { type CliCommand, type Context, take } from '../../command.ts';
import { CliError, exitCodes } from '../../errors.ts';
import { mcpServerText } from './tools.ts';
import { relay } from '../../environment.ts';

export function registerAgents(program: CliCommand): void {
  const agents = program
    .command('agents')
    .description('list the agents of the server, or show one')
    .examples(['relay agents', 'relay agents show support', 'relay chat --agent support'])
    .handle(listAgents);
  agents
    .command('show <agent>')
    .description('show an agent with its model and tools')
    .examples(['relay agents show support'])
    .handle(showAgent);
}

async function listAgents(context: Context): Promise<void> {
  const { agents } = await context.client();
  const items = await take(agents.list(), mostAgents);
  context.print.list(
    items,
    [
      { title: 'agent', value: ({ name }) => name },
      { title: 'default', value: ({ isDefault }) => (isDefault ? 'yes' : ''), minor: true },
      { title: 'model', value: ({ model }) => model },
      { title: 'tools', value: ({ tools }) => (tools === undefined ? 'all' : tools.length) },
      { title: 'description', value: ({ description }) => description },
    ],
    'No agents.',
  );
}

const mostAgents = 1_000;

/** The agent with this name, or the default one. */
export async function findAgent(
  client: RelayClient,
  name: string | undefined,
  signal?: AbortSignal,
): Promise<Agent> {
  const agents = await take(client.agents.list({ signal }), mostAgents);
  const found = agents.find((each) => (name === undefined ? each.isDefault : each.name === name));
  if (found !== undefined) return found;
  const names = agents.map((each) => each.name);
  const meant = nearestTo(name ?? '', names, 3);
  const hint = meant === undefined ? '' : `did you mean ${meant}? `;
  throw new CliError('not_found', `No agent has the name ${name}`, {
    exit: exitCodes.notFound,
    hint: `${hint}"${relay} agents" lists all`,
  });
}

async function showAgent(context: Context, [name = '']: readonly string[]): Promise<void> {
  const client = await context.client();
  const agent = await findAgent(client, name);
  const { defaultModel } = await client.models();
  context.print.record(agent, {
    agent: agent.name,
    description: agent.description,
    default: agent.isDefault ? 'yes' : undefined,
    model: agent.model ?? (defaultModel === undefined ? undefined : `${defaultModel} (default)`),
    tools: await toolsText(context, agent),
    'hands off to': agent.handoffs?.join(', '),
    memory: agent.memory,
  });
}

/** One per line, with those that need an approval. */
async function toolsText(context: Context, { tools }: Agent): Promise<string> {
  if (tools === undefined) return `those that a run names, or all in a chat (see "${relay} tools")`;
  const listed = await (await context.client()).tools();
  const known = new Map(listed.tools.map((each) => [each.name, each]));
  const lines = tools.map((name) => {
    const tool = known.get(name);
    const server = listed.mcpServers.find((each) => name.startsWith(`${each.name}_`));
    const notes = [
      ...(server?.connected === false ? [`the MCP server ${mcpServerText(server)}`] : []),
      ...(tool === undefined && server?.connected === true
        ? [`missing: the MCP server ${server.name} does not offer it`]
        : []),
      ...(tool === undefined && server === undefined
        ? ['missing: the tenant does not have it']
        : []),
      ...(tool?.needsApproval === true ? ['needs approval, always'] : []),
      ...(tool?.needsApproval === false && !tool.allowedByDefault ? ['needs approval'] : []),
    ];
    return notes.length === 0 ? name : `${name} (${notes.join('; ')})`;
  });
  return lines.length === 0 ? 'none' : lines.join('\n');
}
