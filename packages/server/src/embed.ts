/** Relay inside another program: the whole server, its journal and its API, without a port. */
import { audited } from '@relay/core';
import { operatorAuditEntry } from './audit/operator.ts';
import { ids } from './compose.ts';
import { fetchInto, type InProcessFetch } from './http/in-process-fetch.ts';
import { issueBootstrapKey } from './secrets/keys.ts';
import { openRelay, type ServeOptions } from './serve.ts';

export interface EmbedOptions extends Partial<Pick<ServeOptions, 'models' | 'tools' | 'cwd'>> {
  /** What would be in the environment; `RELAY_DATA_DIR` says where everything is kept. */
  readonly env: ServeOptions['env'];
}

/** What a client needs: `createClient(await embed({ env }))`. */
export interface Embedded {
  readonly baseUrl: string;
  /** Of the tenant `default`, with all scopes, until `stop`. */
  readonly apiKey: string;
  /** Answers as the server would, in this process. */
  readonly fetch: InProcessFetch;
  readonly stop: () => Promise<void>;
}

export async function embed(options: EmbedOptions): Promise<Embedded> {
  const { env, cwd = process.cwd(), ...replaced } = options;
  const { relay, store, showFirstKey, stop } = await openRelay({
    ...replaced,
    // A program has its own say about what is worth a line.
    env: { RELAY_LOG_LEVEL: 'warn', ...env },
    cwd,
    terminal: false,
    say: () => {},
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
      fetch: fetchInto(relay.app),
      async stop() {
        const deed = operatorAuditEntry('embed', 'key.revoked', { keyId, name: 'bootstrap' });
        const told = audited({ audit }, tenantId, [deed]);
        await store.tenant(tenantId).revokeKey(keyId, Date.now(), told);
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
