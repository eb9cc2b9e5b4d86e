import type { CliCommand, Context } from '../../command.ts';
import { setting } from '../../environment.ts';
import { existingStore } from '../../local-server.ts';

export function registerBootstrap(program: CliCommand): void {
  program
    .command('bootstrap')
    .description("create a tenant and an API key, on the server's machine")
    .option('--tenant <name>', 'name: letters, digits, "-" and "_"', 'default')
    .option('--workspace <folder>', 'folder for the bash, read and patch tools of the tenant')
    .option('--data-dir <folder>', 'data folder (or $RELAY_DATA_DIR; default: of the server here)')
    .examples([
      'relay bootstrap',
      'relay bootstrap --tenant acme --json',
      'relay bootstrap --tenant acme --workspace ./acme',
      'relay bootstrap --data-dir /var/lib/relay',
      'export RELAY_API_KEY=$(relay bootstrap)',
    ])
    .handle(bootstrap);
}

interface Options {
  readonly tenant: string;
  readonly workspace?: string;
  readonly dataDir?: string;
}

async function bootstrap(context: Context<Options>): Promise<void> {
  const { tenant, workspace, dataDir } = context.options;
  const { makeTenantKey } = await import('@relay/server/operator');
  const { env, cwd } = existingStore(await context.installation(dataDir));
  const key = await makeTenantKey({ env, cwd }, tenant, { workspace });
  const where =
    setting({ env }, 'RELAY_DATABASE_URL') === undefined ? env['RELAY_DATA_DIR'] : 'the database';
  const note = `API key of the tenant ${tenant} in ${where} (shown only once):`;
  context.print.secret(key, note, key.apiKey);
}
