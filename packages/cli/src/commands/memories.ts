import type { Memory } from '@relay/sdk';
import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { CliError, exitCodes, usageError } from '../failures.ts';
import { count, duration, examples } from '../help.ts';
import { pageSize, take } from '../lists.ts';
import type { Column } from '../table.ts';
import { confirmed } from '../secret.ts';
import type { World } from '../world.ts';

export function registerMemories(program: Command, world: World): void {
  const memories = program.command('memories').description('what is remembered beyond a run');
  examples(memories, ['relay memories search "release day"', 'relay memories list']);
  const list = memories
    .command('list')
    .description('memories, newest first')
    .option('--namespace <name>', 'only of this namespace')
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, listMemories));
  examples(list, ['relay memories list --namespace user:42']);
  const search = memories
    .command('search <words...>')
    .description('memories that fit some words, best first')
    .option('--namespace <name>', 'of this namespace', 'default')
    .option('--limit <n>', 'how many at most', count, 10)
    .action(acting(world, searchMemories));
  examples(search, ['relay memories search release day --namespace team']);
  const add = memories
    .command('add <text...>')
    .description('remember something')
    .option('--namespace <name>', 'in this namespace', 'default')
    .option('--ttl <time>', 'for how long: 12h, 30d', duration)
    .action(acting(world, addMemory));
  examples(add, ['relay memories add "Releases go out on Tuesdays" --ttl 90d']);
  const remove = memories
    .command('delete <memories...>')
    .description('forget memories')
    .action(acting(world, deleteMemories));
  examples(remove, ['relay memories delete MEMORY_ID']);
  const clear = memories
    .command('clear <namespace>')
    .description('forget everything in a namespace')
    .option('--yes', 'without being asked')
    .action(acting(world, clearMemories));
  examples(clear, ['relay memories clear user:42 --yes']);
}

const columns: readonly Column<Memory>[] = [
  { title: 'memory', of: ({ id }) => id },
  { title: 'namespace', of: ({ namespace }) => namespace },
  { title: 'source', of: ({ source }) => source, minor: true },
  { title: 'created', of: ({ createdAt }) => createdAt, time: true },
  { title: 'text', of: ({ text }) => text },
];

interface ListOptions {
  readonly namespace?: string;
  readonly limit: number;
}

async function listMemories(call: Call<ListOptions>): Promise<void> {
  const { namespace, limit } = call.options;
  const { memories } = await call.client();
  const query = { ...(namespace === undefined ? {} : { namespace }), limit: pageSize(limit) };
  call.print.list(await take(memories.list(query), limit), columns, 'Nothing is remembered.');
}

async function searchMemories(call: Call<ListOptions>, words: readonly string[]): Promise<void> {
  const { namespace = 'default', limit } = call.options;
  const { memories } = await call.client();
  const query = { namespace, q: words.join(' '), limit: pageSize(limit) };
  call.print.list(
    await take(memories.list(query), limit),
    [{ title: 'fit', of: fitOf }, { title: 'by', of: ({ foundBy }) => foundBy }, ...columns],
    'Nothing fits.',
  );
}

function fitOf({ score, similarity, foundBy }: Memory): string | undefined {
  return (foundBy === 'meaning' ? similarity : score)?.toFixed(2);
}

async function addMemory(
  call: Call<{ namespace: string; ttl?: number }>,
  words: readonly string[],
) {
  const { namespace, ttl } = call.options;
  const { memories } = await call.client();
  const memory = await memories.add({
    namespace,
    text: words.join(' '),
    ...(ttl === undefined ? {} : { ttlSeconds: ttl }),
  });
  if (call.print.json) call.print.value(memory);
  else call.print.say(`Remembered as ${memory.id}.`);
}

async function deleteMemories(call: Call, ids: readonly string[]): Promise<void> {
  const { memories } = await call.client();
  for (const id of ids) {
    await memories.delete(id);
    if (call.print.json) call.print.value({ id, status: 'deleted' });
    else call.print.say(`${id} is forgotten.`);
  }
}

async function clearMemories(call: Call<{ yes?: boolean }>, [namespace = '']: readonly string[]) {
  if (call.options.yes !== true) {
    if (call.world.stdin.isTTY !== true) {
      throw usageError(`All memories of ${namespace} would be gone`, 'say so with --yes');
    }
    if (!(await confirmed(call.world, `Forget everything in ${namespace}?`))) {
      throw new CliError('interrupted', 'Nothing was forgotten', { exit: exitCodes.interrupted });
    }
  }
  const { memories } = await call.client();
  await memories.clear(namespace);
  if (call.print.json) call.print.value({ namespace, status: 'cleared' });
  else call.print.say(`Everything in ${namespace} is forgotten.`);
}
