import type { Backup, Restored } from '@relay/server/operator';
import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { examples } from '../help.ts';
import type { World } from '../world.ts';

interface BackupOptions {
  readonly dataDir?: string;
  readonly withMasterKey?: boolean;
}

interface RestoreOptions {
  readonly to?: string;
  readonly masterKeyFile?: string;
  readonly withoutMasterKey?: boolean;
}

export function registerBackup(program: Command, world: World): void {
  const backup = program
    .command('backup <folder>')
    .description('copy a data folder as it is at one moment, also while its server runs')
    .option('--data-dir <folder>', 'the data folder (or $RELAY_DATA_DIR)')
    .option('--with-master-key', 'put the key that opens the credentials into it, too')
    .action(acting(world, makeBackup));
  examples(
    backup,
    ['relay backup /backups/relay-monday', 'relay backup ./copy --with-master-key'],
    {
      after: 'A PostgreSQL database is backed up by its own tools.',
    },
  );
  const restore = program
    .command('restore <backup>')
    .description('make a data folder from a backup; nothing is overwritten')
    .option('--to <folder>', 'the new data folder (or $RELAY_DATA_DIR)')
    .option('--master-key-file <file>', 'the master key, if it is not in the backup')
    .option('--without-master-key', 'bring it later, before the start')
    .action(acting(world, restoreBackup));
  examples(restore, [
    'relay restore /backups/relay-monday --to /var/lib/relay --master-key-file ./master-key',
  ]);
}

async function makeBackup(call: Call<BackupOptions>, [target = '']: readonly string[]) {
  const operator = await import('@relay/server/operator');
  const { dataDir, withMasterKey } = call.options;
  const place = placeOf(call, dataDir);
  const backup = operator.makeBackup(place, { target, withMasterKey });
  if (call.print.json) call.print.value(backup);
  else call.print.say(aboutKey(backup));
}

function aboutKey({ folder, masterKey, keyIn }: Backup): string {
  const done = `The backup is in ${folder}.`;
  if (masterKey.included) {
    return `${done}\nIt holds the master key: whoever has it can read your providers' keys.`;
  }
  if (masterKey.id === null) return `${done}\nThere is no master key yet.`;
  return [
    done,
    `The master key is NOT in it. Keep ${keyIn} elsewhere: without it the stored`,
    "providers' keys cannot be opened.",
  ].join('\n');
}

async function restoreBackup(call: Call<RestoreOptions>, [backup = '']: readonly string[]) {
  const operator = await import('@relay/server/operator');
  const { to, masterKeyFile, withoutMasterKey } = call.options;
  const restored = operator.restoreBackup(placeOf(call, to), {
    backup,
    keyFile: masterKeyFile,
    withoutKey: withoutMasterKey,
  });
  if (call.print.json) call.print.value(restored);
  else
    call.print.say(`${restored.folder} is as it was at ${restored.createdAt}.\n${next(restored)}`);
}

function next({ folder, key }: Restored): string {
  if (key === 'missing') {
    return `Before the start, put the master key into ${folder}/master-key or RELAY_MASTER_KEY.`;
  }
  return `Start it with RELAY_DATA_DIR=${folder} relay serve`;
}

function placeOf({ world: { env, cwd } }: Call, dataDir: string | undefined) {
  return { cwd, env: dataDir === undefined ? env : { ...env, RELAY_DATA_DIR: dataDir } };
}
