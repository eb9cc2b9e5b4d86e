import type { ApiKeyBody } from '@relay/sdk';
import { defined, roleNames, scopes } from '@relay/protocol/wire';
import { Option } from 'commander';
import { type CliCommand, type Context, takeCounted } from '../../command.ts';
import { count, durationOrZero, futureTime } from '../../options.ts';

export function registerKeys(program: CliCommand): void {
  const keys = program
    .command('keys')
    .description('manage API keys')
    .examples([
      'relay keys list',
      'relay keys create ci --role operator',
      'relay keys rotate KEY_ID --overlap 12h',
    ]);
  keys
    .command('list')
    .description('list keys, newest first, without their secrets')
    .option('--limit <n>', 'maximum number of results', count, 50)
    .examples(['relay keys list'])
    .handle(listKeys);
  keys
    .command('create <name>')
    .description('create a key; it is shown only once')
    .addOption(
      new Option('--role <role>', 'role of the key (default: operator)').choices(roleNames),
    )
    .addOption(
      new Option('--scopes <scopes...>', 'scopes of the key, instead of a role')
        .choices(scopes)
        .conflicts('role'),
    )
    .option('--group <groups...>', 'groups of approvers that the key belongs to')
    .option('--owner <name>', 'owner of the key')
    .option('--expires <time>', 'expiry: a date, or 12h, 90d', futureTime)
    .examples([
      'relay keys create ci --role operator --owner "build team" --expires 90d',
      'relay keys create ada --role approver --group release --owner ada',
      'relay keys create tools --scopes read worker --json',
    ])
    .handle(createKey);
  keys
    .command('rotate [key]')
    .description('replace a key by a new one with the same rights; it is shown only once')
    .option(
      '--overlap <time>',
      'how long the old key stays valid: 0, or 12h, 7d (default: a day)',
      durationOrZero,
    )
    .option(
      '--expires <time>',
      'expiry of the new key: a date, or 12h, 90d (default: as the old key)',
      futureTime,
    )
    .examples(
      ['relay keys rotate KEY_ID', 'relay keys rotate KEY_ID --overlap 0 --expires 90d'],
      'Replace the old key where it is used before the overlap ends. Policy rules that name it also mean the new one.',
    )
    .handle(rotateKey);
  keys
    .command('revoke [keys...]')
    .description('revoke keys and close their open connections')
    .examples(['relay keys revoke KEY_ID'])
    .handle(revokeKeys);
}

async function listKeys(context: Context<{ limit: number }>): Promise<void> {
  const { keys } = await context.client();
  context.print.list(
    await takeCounted(keys.list(), context.options.limit),
    [
      { title: 'key', value: ({ id }) => id, id: true },
      {
        title: 'status',
        value: ({ revokedAt, expiresAt }) => statusOf(revokedAt, expiresAt),
        status: true,
      },
      { title: 'role', value: ({ role }) => role },
      { title: 'scopes', value: ({ scopes }) => scopes.join(' ') },
      { title: 'kind', value: ({ kind }) => kind, minor: true },
      { title: 'groups', value: ({ groups }) => groups.join(' '), minor: true },
      { title: 'last use', value: ({ lastUsedAt }) => lastUsedAt, time: true },
      { title: 'expires', value: ({ expiresAt }) => expiresAt, time: true, minor: true },
      { title: 'created', value: ({ createdAt }) => createdAt, time: true, minor: true },
      { title: 'owner', value: ({ owner }) => owner, minor: true },
      { title: 'name', value: ({ name }) => name },
    ],
    'No keys.',
  );
}

function statusOf(revokedAt: string | undefined, expiresAt: string | undefined): string {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && Date.parse(expiresAt) <= Date.now() ? 'expired' : 'active';
}

type CreateOptions = Pick<ApiKeyBody, 'role' | 'scopes' | 'owner'> & {
  readonly group?: string[];
  readonly expires?: string;
};

async function createKey(
  context: Context<CreateOptions>,
  [name = '']: readonly string[],
): Promise<void> {
  const { scopes, group: groups, owner, expires } = context.options;
  const role = scopes === undefined ? (context.options.role ?? 'operator') : undefined;
  const { keys } = await context.client();
  const key = await keys.create({ name, role, scopes, groups, owner, expiresAt: expires });
  context.print.secret(key, `API key ${key.name}, id ${key.id} (shown only once):`, key.apiKey);
}

async function rotateKey(
  context: Context<{ overlap?: number; expires?: string }>,
  [given]: readonly string[],
): Promise<void> {
  const { overlap: overlapSeconds, expires: expiresAt } = context.options;
  const id = await context.id('key', given);
  const { keys } = await context.client();
  const key = await keys.rotate(id, defined({ overlapSeconds, expiresAt }));
  const old = overlapSeconds === 0 ? 'no longer works' : 'works until the overlap ends';
  const note = `API key ${key.name}, id ${key.id} (shown only once). The key ${id} ${old}:`;
  context.print.secret(key, note, key.apiKey);
}

async function revokeKeys(context: Context, given: readonly string[]): Promise<void> {
  const ids = await context.ids('key', given);
  const { keys } = await context.client();
  for (const id of ids) {
    await keys.revoke(id);
    context.print.result({ id, status: 'revoked' }, `Revoked ${id}.`);
  }
}
