import type { CliCommand, Context } from '../command.ts';

export function registerBootstrap(program: CliCommand): void {
  program
    .command('bootstrap')
    .description("create a tenant and an API key, on the server's machine")
    .option('--tenant <name>', 'name: letters, digits, "-" and "_"', 'default')
    .option('--workspace <folder>', 'folder for the bash, read and patch tools of the tenant')
    .examples([
      'relay bootstrap',
      'relay bootstrap --tenant acme --json',
      'relay bootstrap --tenant acme --workspace ./acme',
      'export RELAY_API_KEY=$(relay bootstrap)',
    ])
    .handle(bootstrap);
}

interface Options {
  readonly tenant: string;
  readonly workspace?: string;
}

async function bootstrap({ environment, options, print }: Context<Options>): Promise<void> {
  const { makeTenantKey } = await import('@relay/server/operator');
  const { env, cwd } = environment;
  const { tenant, workspace } = options;
  const key = await makeTenantKey({ env, cwd }, tenant, workspace);
  print.secret(key, `API key of the tenant ${tenant} (shown only once):`, key.apiKey);
}
