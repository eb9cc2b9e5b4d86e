/** `bootstrap [--tenant NAME] [--workspace DIR] [--json]`: creates a key for a tenant, also beside a running server. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { makeTenantKey } from './operator/tenant-key.ts';

const usage = `Usage: npm run -s bootstrap -- [--tenant NAME] [--workspace DIR] [--json]

Creates the tenant if it does not exist, and a new API key for it. The key is shown only once.

  --tenant NAME   letters, digits, "-" and "_" (default: default)
  --workspace DIR the folder that the tenant's bash, read and patch work in
  --json          print {"tenantId","keyId","apiKey"}
  --help          this text`;

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
  // npm changes to the project's folder; INIT_CWD is where the operator ran it.
  const startDir = process.env['INIT_CWD'] ?? process.cwd();
  const folder = workspace === undefined ? undefined : resolve(startDir, workspace);
  const installation = { env: process.env, cwd: process.cwd() };
  const key = await makeTenantKey(installation, tenant, { workspace: folder });
  if (json) console.log(JSON.stringify(key));
  else console.log(`A new API key for ${tenant}, shown only once:\n\n  ${key.apiKey}\n`);
}
