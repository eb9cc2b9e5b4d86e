/** `bootstrap [--tenant NAME] [--json]`: a key for a tenant, also beside a running server. */
import { parseArgs } from 'node:util';
import { ids } from './compose.ts';
import { ConfigError, readConfig } from './config.ts';
import { issueBootstrapKey } from './keys.ts';
import { openStore } from './open-store.ts';

const usage = `Usage: npm run -s bootstrap -- [--tenant NAME] [--json]

Makes the tenant if it is not there yet, and a new API key for it. The key is shown only once.

  --tenant NAME   letters, digits, "-" and "_" (default: default)
  --json          print {"tenantId","keyId","apiKey"}
  --help          this text`;

const tenantForm = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

try {
  const { values } = parseArgs({
    options: {
      tenant: { type: 'string', default: 'default' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) console.log(usage);
  else await bootstrap(values.tenant, values.json);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

async function bootstrap(tenant: string, json: boolean): Promise<void> {
  if (!tenantForm.test(tenant)) {
    throw new ConfigError(`--tenant must be letters, digits, "-" and "_", not "${tenant}"`);
  }
  const opened = await openStore(readConfig(process.env, process.cwd()), 'beside');
  try {
    const key = await issueBootstrapKey(opened.store, ids, tenant);
    if (json) console.log(JSON.stringify(key));
    else console.log(`A new API key for ${tenant}, shown only this once:\n\n  ${key.apiKey}\n`);
  } finally {
    await opened.close();
  }
}
