/** Relay inside another program: the whole server with its journal and API, without a port. */
import { auditRecordsOf } from '@relay/core';
import { operatorAuditEntry } from './audit/operator-entries.ts';
import { ids, stopAll } from './compose.ts';
import { createInProcessFetch, type InProcessFetch } from './http/in-process-fetch.ts';
import { issueBootstrapKey } from './secrets/keys.ts';
import { openServer, type ServeOptions } from './serve.ts';

export interface EmbedOptions extends Partial<Pick<ServeOptions, 'models' | 'tools' | 'config'>> {
  /** The folder of the project: of relay.config.ts, of relative paths, and in which MCP programs run. */
  readonly cwd?: string;
  /** The server's settings, as environment variables; `RELAY_DATA_DIR` names the data folder. */
  readonly env: ServeOptions['env'];
}

/** What a client needs: `createClient(await embed({ env }))`. */
export interface InProcessRelay {
  readonly baseUrl: string;
  /** A key of the tenant `default` with all scopes, valid until `stop`. */
  readonly apiKey: string;
  readonly fetch: InProcessFetch;
  readonly stop: () => Promise<void>;
}

export async function embed(options: EmbedOptions): Promise<InProcessRelay> {
  const { env, cwd = process.cwd(), ...replacements } = options;
  const { relay, store, showFirstKey, stop } = await openServer({
    ...replacements,
    // The host program has its own log.
    env: { RELAY_LOG_LEVEL: 'warn', ...env },
    cwd,
    terminal: false,
    print: () => {},
  });
  try {
    await showFirstKey();
    const { audit } = relay.control.engine;
    const issue = { tenant: 'default', by: 'embed', audit } as const;
    const { apiKey, keyId, tenantId } = await issueBootstrapKey(store, ids, issue);
    await relay.app.ready();
    return {
      baseUrl: 'http://localhost',
      apiKey,
      fetch: createInProcessFetch(relay.app),
      async stop() {
        const entry = operatorAuditEntry('embed', 'key.revoked', { keyId, name: 'bootstrap' });
        const entries = auditRecordsOf({ audit }, tenantId, [entry]);
        const revoke = () => store.tenant(tenantId).revokeKey(keyId, Date.now(), entries);
        await stopAll([revoke, stop]);
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
