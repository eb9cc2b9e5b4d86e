import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { examples } from '../help.ts';
import type { World } from '../world.ts';

export function registerBootstrap(program: Command, world: World): void {
  const command = program
    .command('bootstrap')
    .description('make a tenant and a key for it, on the machine of the data folder')
    .option('--tenant <name>', 'letters, digits, "-" and "_"', 'default')
    .option('--workspace <folder>', 'where the tenant’s bash, read and patch work')
    .action(acting(world, bootstrap));
  examples(command, [
    'relay bootstrap',
    'relay bootstrap --tenant acme --json',
    'relay bootstrap --tenant acme --workspace ./acme',
    `export RELAY_API_KEY=$(relay bootstrap)`,
  ]);
}

interface Options {
  readonly tenant: string;
  readonly workspace?: string;
}

async function bootstrap({ world, options, print }: Call<Options>): Promise<void> {
  const { makeTenantKey } = await import('@relay/server/operator');
  const { env, cwd } = world;
  const { tenant, workspace } = options;
  const key = await makeTenantKey({ env, cwd }, tenant, workspace);
  if (print.json) {
    print.value(key);
    return;
  }
  print.note(`A key for the tenant ${options.tenant}, shown only this once:`);
  print.say(key.apiKey);
}
