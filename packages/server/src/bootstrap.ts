/** `bootstrap [--tenant NAME] [--workspace DIR] [--json]`: a key for a tenant, also beside a running server. */
import { parseArgs } from 'node:util';
import { ids } from './compose.ts';
import { ConfigError, readConfig } from './config.ts';
import { issueBootstrapKey } from './keys.ts';
import { openStore } from './open-store.ts';
import { giveWorkspace } from './workspaces.ts';

const usage = `Usage: npm run -s bootstrap -- [--tenant NAME] [--workspace DIR] [--json]

Makes the tenant if it is not there yet, and a new API key for it. The key is shown only once.

  --tenant NAME   letters, digits, "-" and "_" (default: default)
  --workspace DIR the folder that the tenant's bash, read and patch work in
  --json          print {"tenantId","keyId","apiKey"}
  --help          this text`;

const tenantForm = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

try {
  const { values } = parseArgs({
    options: {
      tenant: { type: 'string', default: 'default' },
      workspace: { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) console.log(usage);
  else await bootstrap(values.tenant, values);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

async function bootstrap(
  tenant: string,
  { workspace, json }: { workspace?: string | undefined; json: boolean },
): Promise<void> {
  if (!tenantForm.test(tenant)) {
    throw new ConfigError(`--tenant must be letters, digits, "-" and "_", not "${tenant}"`);
  }
  const config = readConfig(process.env, process.cwd());
  const opened = await openStore(config, 'beside');
  try {
    if (workspace !== undefined) {
      // npm changes to the project's folder; whoever typed this was elsewhere.
      const cwd = process.env['INIT_CWD'] ?? process.cwd();
      await giveWorkspace(opened.store, { config, ids, tenant, folder: workspace, cwd });
    }
    const key = await issueBootstrapKey(opened.store, ids, tenant);
    if (json) console.log(JSON.stringify(key));
    else console.log(`A new API key for ${tenant}, shown only this once:\n\n  ${key.apiKey}\n`);
  } finally {
    await opened.close();
  }
}
