import type { ToolList } from '@relay/sdk';
import type { CliCommand, Context } from '../../command.ts';
import type { Column } from '../../output/table.ts';

export function registerTools(program: CliCommand): void {
  program
    .command('tools')
    .description('list the tools of the server and its MCP servers')
    .examples(['relay tools', 'relay tools --json'])
    .handle(listTools);
}

export const toolColumns: readonly Column<ToolList['tools'][number]>[] = [
  { title: 'tool', value: ({ name }) => name },
  { title: 'approval', value: approvalOf },
  { title: 'only with', value: ({ needs }) => needs },
  { title: 'description', value: ({ description }) => description },
];

function approvalOf({ allowedByDefault, needsApproval }: ToolList['tools'][number]): string {
  if (needsApproval) return 'always';
  return allowedByDefault ? 'no' : 'yes';
}

async function listTools(context: Context): Promise<void> {
  const client = await context.client();
  const { tools, mcpServers } = await client.tools();
  context.print.list(tools, toolColumns, 'No tools.');
  for (const server of mcpServers) {
    if (!server.connected) context.print.note(`The MCP server ${mcpServerText(server)}`);
  }
}

export function mcpServerText({ name, problem, tools }: ToolList['mcpServers'][number]): string {
  return problem === undefined
    ? `${name} (${tools} ${tools === 1 ? 'tool' : 'tools'})`
    : `${name} is not connected: ${problem}`;
}
