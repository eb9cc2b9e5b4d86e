import type { Rotation } from '@relay/server/operator';
import type { CliCommand, Context } from '../../command.ts';

interface Options {
  readonly dataDir?: string;
  readonly keyFile?: string;
  readonly nodesStopped?: boolean;
}

export function registerMasterKey(program: CliCommand): void {
  program
    .command('rotate-master-key')
    .description('create a new master key and re-encrypt the credentials')
    .option('--data-dir <folder>', 'data folder (or $RELAY_DATA_DIR; default: .relay)')
    .option('--key-file <file>', 'file for the new key, if $RELAY_MASTER_KEY is set')
    .option('--nodes-stopped', 'no server uses the database: re-encrypt it now')
    .examples(
      ['relay rotate-master-key', 'relay rotate-master-key --key-file ./new-key'],
      'Stop the server of a data folder first. If interrupted, run it again. For servers that ' +
        'share a database it creates the key and prints how to switch them over, one by one.',
    )
    .handle(rotate);
}

async function rotate(context: Context<Options>): Promise<void> {
  const { options, print } = context;
  const { rotateMasterKey } = await import('@relay/server/operator');
  const { dataDir, ...rest } = options;
  const rotation = await rotateMasterKey(await context.settings(dataDir), rest);
  print.result(rotation, nextSteps(rotation));
}

function nextSteps(rotation: Rotation): string {
  const { keyFile } = rotation;
  if (rotation.kind === 'replaced') {
    return [
      `The credentials are encrypted with the new master key in ${keyFile}.`,
      `The old key is in ${rotation.oldKeyFile}. Keep it as long as you keep older backups.`,
      'You can start the server again.',
    ].join('\n');
  }
  if (rotation.kind === 'resealed') {
    return [
      `The credentials are encrypted with the new master key in ${keyFile}. Next steps:`,
      '1. Set RELAY_MASTER_KEY to the contents of that file, and start the server.',
      '2. Keep the old key as long as you keep older backups.',
      `3. Store the new key in your secret manager, and delete ${keyFile}.`,
    ].join('\n');
  }
  return [
    `The new master key is in ${keyFile}. Nothing is encrypted with it yet. Next steps:`,
    '1. Set RELAY_MASTER_KEY_PREVIOUS to the new key on every node, and restart them one by one:',
    '   each node can then decrypt with either key.',
    '2. Set RELAY_MASTER_KEY to the new key and RELAY_MASTER_KEY_PREVIOUS to the old one, and',
    '   restart them one by one. The first one re-encrypts everything with the new key.',
    '3. Remove RELAY_MASTER_KEY_PREVIOUS at the next restart.',
    `4. Store the new key in your secret manager, and delete ${keyFile}.`,
  ].join('\n');
}
