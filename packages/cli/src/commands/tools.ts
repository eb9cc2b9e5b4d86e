import type { ToolList } from '@relay/sdk';
import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { examples } from '../help.ts';
import type { Column } from '../table.ts';
import type { World } from '../world.ts';

export function registerTools(program: Command, world: World): void {
  const tools = program
    .command('tools')
    .description('the tools of the server, with those of MCP servers')
    .action(acting(world, listTools));
  examples(tools, ['relay tools', 'relay tools --json']);
}

const columns: readonly Column<ToolList['tools'][number]>[] = [
  { title: 'tool', of: ({ name }) => name },
  { title: 'asks', of: ({ allowedByDefault }) => (allowedByDefault ? 'no' : 'yes') },
  { title: 'description', of: ({ description }) => description },
];

async function listTools(call: Call): Promise<void> {
  const client = await call.client();
  const { tools } = await client.tools();
  call.print.list(tools, columns, 'There are no tools.');
}
