import type { Command } from 'commander';
import { Option } from 'commander';
import { acting, type Call } from '../call.ts';
import { count, examples, moment } from '../help.ts';
import { take } from '../lists.ts';
import type { World } from '../world.ts';

type Scope = 'runs' | 'approve' | 'admin';

export function registerKeys(program: Command, world: World): void {
  const keys = program.command('keys').description('who may call, and what for');
  examples(keys, ['relay keys list', 'relay keys create ci --scopes runs']);
  const list = keys
    .command('list')
    .description('keys, newest first and without their secrets')
    .option('--limit <n>', 'how many at most', count, 50)
    .action(acting(world, listKeys));
  examples(list, ['relay keys list']);
  const create = keys
    .command('create <name>')
    .description('make a key, which is shown only this once')
    .addOption(
      new Option('--scopes <scopes...>', 'what it is for')
        .choices(['runs', 'approve', 'admin'])
        .default(['runs']),
    )
    .option('--owner <name>', 'who has it')
    .option('--expires <time>', 'until when: a date, or 12h, 90d', moment)
    .action(acting(world, createKey));
  examples(create, [
    'relay keys create ci --scopes runs --owner "build team" --expires 90d',
    'relay keys create ada --scopes runs approve --json',
  ]);
  const revoke = keys
    .command('revoke <keys...>')
    .description('let keys count no more, and close what they have open')
    .action(acting(world, revokeKeys));
  examples(revoke, ['relay keys revoke KEY_ID']);
}

async function listKeys(call: Call<{ limit: number }>): Promise<void> {
  const { keys } = await call.client();
  call.print.list(
    await take(keys.list(), call.options.limit),
    [
      { title: 'key', of: ({ id }) => id },
      {
        title: 'status',
        of: ({ revokedAt, expiresAt }) => statusOf(revokedAt, expiresAt),
        status: true,
      },
      { title: 'scopes', of: ({ scopes }) => scopes.join(' ') },
      { title: 'expires', of: ({ expiresAt }) => expiresAt, time: true, minor: true },
      { title: 'created', of: ({ createdAt }) => createdAt, time: true, minor: true },
      { title: 'owner', of: ({ owner }) => owner, minor: true },
      { title: 'name', of: ({ name }) => name },
    ],
    'There are no keys.',
  );
}

function statusOf(revokedAt: string | undefined, expiresAt: string | undefined): string {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && Date.parse(expiresAt) <= Date.now() ? 'expired' : 'active';
}

interface CreateOptions {
  readonly scopes: readonly Scope[];
  readonly owner?: string;
  readonly expires?: string;
}

async function createKey(call: Call<CreateOptions>, [name = '']: readonly string[]): Promise<void> {
  const { scopes, owner, expires } = call.options;
  const { keys } = await call.client();
  const key = await keys.create({
    name,
    scopes: [...scopes],
    ...(owner === undefined ? {} : { owner }),
    ...(expires === undefined ? {} : { expiresAt: expires }),
  });
  if (call.print.json) {
    call.print.value(key);
    return;
  }
  call.print.note(`The key ${key.name} (${key.id}), shown only this once:`);
  call.print.say(key.apiKey);
}

async function revokeKeys(call: Call, ids: readonly string[]): Promise<void> {
  const { keys } = await call.client();
  for (const id of ids) {
    await keys.revoke(id);
    if (call.print.json) call.print.value({ id, status: 'revoked' });
    else call.print.say(`${id} is revoked.`);
  }
}
