import type { Backup, Restored } from '@relay/server/operator';
import type { CliCommand, Context } from '../../command.ts';
import { relay } from '../../environment.ts';

interface BackupOptions {
  readonly dataDir?: string;
  readonly withMasterKey?: boolean;
}

interface RestoreOptions {
  readonly to?: string;
  readonly masterKeyFile?: string;
  readonly withoutMasterKey?: boolean;
  readonly paused?: boolean;
}

export function registerBackup(program: CliCommand): void {
  program
    .command('backup <folder>')
    .description('back up a data folder, even while its server runs')
    .option('--data-dir <folder>', 'data folder (or $RELAY_DATA_DIR; default: of the server here)')
    .option('--with-master-key', 'include the master key, which decrypts the credentials')
    .examples(
      ['relay backup /backups/relay-monday', 'relay backup ./copy --with-master-key'],
      'Back up a PostgreSQL database with its own tools.',
    )
    .handle(makeBackup);
  program
    .command('restore <backup>')
    .description('create a data folder from a backup; overwrites nothing')
    .option('--to <folder>', 'the new data folder (or $RELAY_DATA_DIR)')
    .option('--master-key-file <file>', 'the master key, if the backup lacks it')
    .option('--without-master-key', 'add the master key later, before starting the server')
    .option('--paused', 'pause all tenants, for a copy beside the original server')
    .examples([
      'relay restore /backups/relay-monday --to /var/lib/relay --master-key-file ./master-key',
      'relay restore /backups/relay-monday --to ./copy --master-key-file ./master-key --paused',
    ])
    .handle(restoreBackup);
}

async function makeBackup(context: Context<BackupOptions>, [target = '']: readonly string[]) {
  const operator = await import('@relay/server/operator');
  const { dataDir, withMasterKey } = context.options;
  const { env, cwd } = await context.installation(dataDir);
  const backup = operator.makeBackup({ env, cwd }, { target, withMasterKey });
  context.print.result(backup, backupText(backup, env['RELAY_DATA_DIR']));
}

function backupText({ folder, masterKey, keyIn }: Backup, source = '.relay'): string {
  const done = `The backup of ${source} is in ${folder}.`;
  if (masterKey.included) {
    return `${done}\nIt contains the master key: anyone with the backup can read your providers' keys.`;
  }
  if (masterKey.id === null) return `${done}\nNo master key exists yet.`;
  return [
    done,
    `The master key is NOT included. Store ${keyIn} elsewhere: without it`,
    'the backup cannot be opened.',
  ].join('\n');
}

async function restoreBackup(context: Context<RestoreOptions>, [backup = '']: readonly string[]) {
  const operator = await import('@relay/server/operator');
  const { to, masterKeyFile, withoutMasterKey, paused } = context.options;
  const restored = operator.restoreBackup(await context.settings(to), {
    backup,
    keyFile: masterKeyFile,
    withoutKey: withoutMasterKey,
    paused,
  });
  context.print.result(
    restored,
    `Restored ${restored.folder} as of ${restored.createdAt}.\n${nextStep(restored)}\n${effectOf(restored)}`,
  );
}

function effectOf({ paused }: Restored): string {
  if (paused) {
    return [
      'All tenants are paused: no run goes on and no webhook is sent before they are unpaused.',
      `Beside the original server, name the copy: "${relay} --url URL login", then`,
      `"${relay} --url URL unpause".`,
    ].join('\n');
  }
  return [
    'At its start, open runs go on and waiting webhooks are sent. If the original server still runs,',
    'they happen twice: restore with --paused instead.',
  ].join('\n');
}

function nextStep({ folder, key }: Restored): string {
  if (key === 'missing') {
    return `Before you start the server, put the master key into ${folder}/master-key or RELAY_MASTER_KEY.`;
  }
  return `Start the server with RELAY_DATA_DIR=${folder} ${relay} serve`;
}
