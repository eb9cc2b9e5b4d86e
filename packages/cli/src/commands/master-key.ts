import type { Rotation } from '@relay/server/operator';
import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { examples } from '../help.ts';
import type { World } from '../world.ts';

interface Options {
  readonly keyFile?: string;
  readonly nodesStopped?: boolean;
}

export function registerMasterKey(program: Command, world: World): void {
  const command = program
    .command('rotate-master-key')
    .description('make a new master key, and seal the credentials with it')
    .option('--key-file <file>', 'where the new key goes, if it comes from $RELAY_MASTER_KEY')
    .option('--nodes-stopped', 'no server uses the database now: seal it at once')
    .action(acting(world, rotate));
  examples(command, ['relay rotate-master-key', 'relay rotate-master-key --key-file ./new-key'], {
    after:
      'The server of a data folder must be stopped. Interrupted, it is simply run again. ' +
      'For servers on one database it makes the key and says how they take it over, one by one.',
  });
}

async function rotate({ world, options, print }: Call<Options>): Promise<void> {
  const { rotateMasterKey } = await import('@relay/server/operator');
  const { env, cwd } = world;
  const rotation = await rotateMasterKey({ env, cwd }, options);
  if (print.json) print.value(rotation);
  else print.say(nextSteps(rotation));
}

function nextSteps(rotation: Rotation): string {
  const { keyFile } = rotation;
  if (rotation.kind === 'replaced') {
    return [
      `The credentials are sealed with the new master key in ${keyFile}.`,
      `The old one is in ${rotation.oldKeyFile}: backups from before need it. Delete it with them.`,
      'You can start the server again.',
    ].join('\n');
  }
  if (rotation.kind === 'resealed') {
    return [
      `The credentials are sealed with the new master key in ${keyFile}. Now:`,
      `1. Set RELAY_MASTER_KEY to what is in that file, and start.`,
      '2. Keep the old key as long as you keep backups from before.',
      `3. Put the new key where you keep such things, and delete ${keyFile}.`,
    ].join('\n');
  }
  return [
    `The new master key is in ${keyFile}. Nothing is sealed with it yet. Now:`,
    '1. Set RELAY_MASTER_KEY_PREVIOUS to the new key on every node, and restart them one by one:',
    '   from then on each can open what either key has sealed.',
    '2. Set RELAY_MASTER_KEY to the new key and RELAY_MASTER_KEY_PREVIOUS to the old one, and',
    '   restart them one by one. The first of them seals everything with the new key.',
    '3. Take RELAY_MASTER_KEY_PREVIOUS away at the next restart.',
    `4. Put the new key where you keep such things, and delete ${keyFile}.`,
  ].join('\n');
}
