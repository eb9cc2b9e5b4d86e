import type { Conversation, RelayClient } from '@relay/sdk';
import { type CliCommand, type Context, takeCounted } from '../../command.ts';
import { count } from '../../options.ts';
import type { Column } from '../../output/table.ts';

interface ListOptions {
  readonly query?: string;
  readonly limit: number;
}

export function registerConversations(program: CliCommand): void {
  const conversations = program
    .command('conversations')
    .description('list conversations')
    .examples(['relay conversations list', 'relay chat --continue']);
  conversations
    .command('list')
    .description('list conversations, the latest first')
    .option('--query <text>', 'only those whose first message contains this text')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(
      ['relay conversations list', 'relay conversations list --query "release notes" --limit 5'],
      'Continue one with "relay chat --conversation ID", or the latest with "relay chat --continue".',
    )
    .handle(listConversations);
}

export const conversationColumns: readonly Column<Conversation>[] = [
  { title: 'conversation', value: ({ id }) => id, id: true },
  { title: 'status', value: ({ status }) => status, status: true },
  { title: 'agent', value: ({ agent }) => agent, minor: true },
  { title: 'runs', value: ({ runs }) => runs, minor: true },
  { title: 'last message', value: ({ updatedAt }) => updatedAt, time: true },
  { title: 'about', value: ({ title }) => title },
];

async function listConversations(context: Context<ListOptions>): Promise<void> {
  const { query, limit } = context.options;
  const { conversations } = await context.client();
  context.print.list(
    await takeCounted(conversations.list({ q: query, ...context.page(limit) }), limit),
    conversationColumns,
    'No matching conversations.',
  );
}

/** The latest chats of the owner of the key, without the turns of sessions. */
export async function ownConversations(
  client: RelayClient,
  limit: number,
): Promise<readonly Conversation[]> {
  const key = await client.keys.current();
  // A key without an owner is its own.
  const owner = key.owner ?? key.id;
  const own: Conversation[] = [];
  for await (const conversation of client.conversations.list({ limit: 100 })) {
    if (conversation.owner !== owner || conversation.sessionId !== undefined) continue;
    own.push(conversation);
    if (own.length >= limit) break;
  }
  return own;
}
