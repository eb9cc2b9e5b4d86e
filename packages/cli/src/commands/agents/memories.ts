import type { Memory } from '@relay/sdk';
import { type CliCommand, type Context, pageSize, take, takeCounted } from '../../command.ts';
import { count, duration } from '../../options.ts';
import type { Column } from '../../output/table.ts';
import { confirmDeletion } from '../../input.ts';

export function registerMemories(program: CliCommand): void {
  const memories = program
    .command('memories')
    .description('manage the memories of agents')
    .examples(['relay memories search "release day"', 'relay memories list']);
  memories
    .command('list')
    .description('list memories, newest first')
    .option('--namespace <name>', 'only memories in this namespace')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay memories list --namespace user:42'])
    .handle(listMemories);
  memories
    .command('search <words...>')
    .description('search memories, best match first')
    .option('--namespace <name>', 'namespace to search', 'default')
    .option('--limit <n>', 'maximum number of results', count, 10)
    .examples(['relay memories search release day --namespace team'])
    .handle(searchMemories);
  memories
    .command('add <text...>')
    .description('add a memory')
    .option('--namespace <name>', 'namespace of the memory', 'default')
    .option('--ttl <time>', 'time to live: 12h, 30d', (text) => duration(text))
    .examples(['relay memories add "Releases go out on Tuesdays" --ttl 90d'])
    .handle(addMemory);
  memories
    .command('delete [memories...]')
    .description('delete memories')
    .examples(['relay memories delete MEMORY_ID'])
    .handle(deleteMemories);
  memories
    .command('clear <namespace>')
    .description('delete all memories in a namespace')
    .option('--yes', 'do not ask for confirmation')
    .examples(['relay memories clear user:42 --yes'])
    .handle(clearMemories);
}

const columns: readonly Column<Memory>[] = [
  { title: 'memory', value: ({ id }) => id, id: true },
  { title: 'namespace', value: ({ namespace }) => namespace },
  { title: 'source', value: ({ source }) => source, minor: true },
  { title: 'created', value: ({ createdAt }) => createdAt, time: true },
  { title: 'text', value: ({ text }) => text },
];

interface ListOptions {
  readonly namespace?: string;
  readonly limit: number;
}

async function listMemories(context: Context<ListOptions>): Promise<void> {
  const { namespace, limit } = context.options;
  const { memories } = await context.client();
  const query = { namespace, limit: pageSize(limit) };
  context.print.list(await takeCounted(memories.list(query), limit), columns, 'No memories.');
}

async function searchMemories(
  context: Context<ListOptions>,
  words: readonly string[],
): Promise<void> {
  const { namespace = 'default', limit } = context.options;
  const { memories } = await context.client();
  const query = { namespace, q: words.join(' '), limit: pageSize(limit) };
  const found = await take(memories.list(query), limit);
  context.print.list(
    found,
    [
      { title: 'score', value: scoreOf },
      { title: 'by', value: ({ foundBy }) => foundBy },
      ...columns,
    ],
    found.length === 0 ? await nothingFound(context, namespace) : undefined,
  );
}

/** Says where it searched, and where there are memories. */
async function nothingFound(context: Context, namespace: string): Promise<string> {
  const { memories } = await context.client();
  const { items } = await memories.list({ limit: 200 }).page();
  const others = new Set(items.map((each) => each.namespace));
  others.delete(namespace);
  const searched = `No memory in the namespace ${namespace} matches.`;
  if (others.size === 0) return searched;
  return `${searched} Others: ${[...others].slice(0, 10).join(', ')}. Search one with --namespace.`;
}

function scoreOf({ score, similarity, foundBy }: Memory): string | undefined {
  return (foundBy === 'meaning' ? similarity : score)?.toFixed(2);
}

async function addMemory(
  context: Context<{ namespace: string; ttl?: number }>,
  words: readonly string[],
) {
  const { namespace, ttl } = context.options;
  const { memories } = await context.client();
  const memory = await memories.add({ namespace, text: words.join(' '), ttlSeconds: ttl });
  context.print.result(memory, `Added ${memory.id}.`);
}

async function deleteMemories(context: Context, given: readonly string[]): Promise<void> {
  const ids = await context.ids('memory', given);
  const { memories } = await context.client();
  for (const id of ids) {
    await memories.delete(id);
    context.print.result({ id, status: 'deleted' }, `Deleted ${id}.`);
  }
}

async function clearMemories(
  context: Context<{ yes?: boolean }>,
  [namespace = '']: readonly string[],
) {
  await confirmDeletion(context, `all memories in ${namespace}`);
  const { memories } = await context.client();
  await memories.clear(namespace);
  context.print.result({ namespace, status: 'cleared' }, `Deleted all memories in ${namespace}.`);
}
