/** `bootstrap [--tenant NAME] [--json]`: a key for a tenant, also beside a running server. */
import { parseArgs } from 'node:util';
import { makeTenantKey } from './operator/tenant-key.ts';

const usage = `Usage: npm run -s bootstrap -- [--tenant NAME] [--json]

Makes the tenant if it is not there yet, and a new API key for it. The key is shown only once.

  --tenant NAME   letters, digits, "-" and "_" (default: default)
  --json          print {"tenantId","keyId","apiKey"}
  --help          this text`;

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
  const key = await makeTenantKey({ env: process.env, cwd: process.cwd() }, tenant);
  if (json) console.log(JSON.stringify(key));
  else console.log(`A new API key for ${tenant}, shown only this once:\n\n  ${key.apiKey}\n`);
}
