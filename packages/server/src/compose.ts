/** The composition root: the only place where adapters are connected to the core. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  combinePublishers,
  type RunControl,
  defaultSettings,
  type Engine,
  type Log,
  Supervisor,
  systemClock,
  type SystemStore,
  TranscriptCache,
} from '@relay/core';
import { createGuardedFetch, createOutboundGuard } from '@relay/models';
import { defined } from '@relay/protocol';
import type { FastifyInstance } from 'fastify';
import { uuidv7 } from 'uuidv7';
import { createApp } from './http/app.ts';
import { AuditSealer } from './audit/sealer.ts';
import { AuditSigner } from './audit/signer.ts';
import { auditRotation, auditWriter } from './audit/operator.ts';
import { bashSettings, type RelayConfig } from './config/config-file.ts';
import { BudgetChecker } from './jobs/budgets.ts';
import { type Config, ConfigError } from './config/config.ts';
import type { ServerContext } from './http/handlers/handler.ts';
import { assembleDefinitions, type Replacements } from './config/definitions.ts';
import { openEmbeddings } from './jobs/embeddings.ts';
import { Feed } from './streaming/feed.ts';
import { Housekeeping } from './jobs/housekeeping.ts';
import { OutputStore } from './jobs/output-store.ts';
import { Hub } from './streaming/hub.ts';
import { asServerLog, type ServerLog } from './observability/log.ts';
import { killOrphans, Workspaces } from './config/workspaces.ts';
import { openMcp } from './outbound/mcp.ts';
import { Metrics } from './observability/metrics.ts';
import { subscribeToPeers } from './jobs/peers.ts';
import { endOrphanedChatSessions, OpenStreams } from './streaming/connections.ts';
import { Presence } from './jobs/presence.ts';
import { isOffered, Providers } from './outbound/providers.ts';
import { RateLimiter } from './http/rate-limit.ts';
import { openTracing } from './observability/tracing.ts';
import { masterKeys, derive, openRootKey } from './secrets/master-key.ts';
import { Vault } from './secrets/vault.ts';
import { WebhookDeliverer } from './jobs/webhook-deliverer.ts';
import { WebhookSigner } from './secrets/webhook-signer.ts';
import { version } from './version.ts';

export const ids = { next: uuidv7 };

/** Far above what a client needs, far below what would slow down other clients. */
const defaultRequestsPerMinute = 60_000;
const defaultFailuresPerMinute = 600;

export interface ComposeOptions extends Replacements {
  readonly config: Config;
  /** What `relay.config.ts` defines. */
  readonly file?: RelayConfig;
  readonly store: SystemStore;
  readonly log: Log | ServerLog;
}

export interface Relay {
  readonly app: FastifyInstance;
  readonly control: RunControl;
  readonly hub: Hub;
  readonly feed: Feed;
  /** Recovers runs of an earlier process and starts all background work. */
  start(): Promise<void>;
  /** Releases all runs gracefully. The caller closes the store. */
  stop(): Promise<void>;
}

export async function compose(options: ComposeOptions): Promise<Relay> {
  const { config, store } = options;
  const log = asServerLog(options.log);
  concealSecrets(log, config);
  const hub = new Hub();
  const feed = new Feed();
  const streams = new OpenStreams(store);
  const metrics = new Metrics(store, {
    activeRuns: () => control.supervisor.activeRuns,
    openStreams: () => streams.size,
  });
  const { file = {} } = options;
  const { models, tools, agents } = assembleDefinitions(config, file, options);
  const masters = masterKeys(config);
  const vault = new Vault({ store, masters, ids, log });
  await vault.open();
  const rootKey = await openRootKey(store, masters, (key) =>
    auditRotation(store, auditWriter(key), masters),
  );
  const auditSigner = new AuditSigner(derive(rootKey, 'audit'));
  const guard = createOutboundGuard(config.privateNetworks);
  const fetch = createGuardedFetch(guard);
  const providers = new Providers({ builtIn: models, store, vault, guard, ...file.providers });
  const clock = systemClock;
  const embeddings = openEmbeddings({ config, file, providers, store, vault, clock, log });
  const { defaultModel } = config;
  if (defaultModel !== undefined && !isOffered(models, defaultModel)) {
    throw new ConfigError(`RELAY_DEFAULT_MODEL: no provider offers the model ${defaultModel}`);
  }
  const tenant = await store.ensureTenant({ id: ids.next(), name: 'default', at: Date.now() });
  const workspaces = new Workspaces({
    store,
    config,
    defaultTenantId: tenant.id,
    tools,
    // A caller that replaces the tools also replaces those of workspaces.
    ...(options.tools === undefined ? { bash: bashSettings(config, file.bash) } : {}),
    clock,
    log,
  });
  await workspaces.open();
  const mcp = await openMcp({
    servers: file.mcpServers,
    store,
    guard,
    fetch,
    dataDir: config.dataDir,
    tools,
    clock,
    log,
  });
  const node = ids.next();
  const tracing = await openTracing({ settings: config.traces, store, log, node, version });
  const engine: Engine = {
    store,
    transcripts: new TranscriptCache(),
    clock,
    ids,
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    publisher: combinePublishers(
      {
        streams: (runId, events) => hub.publish(runId, events),
        feed: (runId, events, tenantId) => feed.publish(tenantId, runId, events),
        metrics: (runId, events) => metrics.publish(runId, events),
        traces: (runId, events, tenantId) => tracing.publish(runId, events, tenantId),
        embeddings: (_runId, events, tenantId) => embeddings?.publish(events, tenantId),
      },
      log,
    ),
    log,
    settings: {
      ...defaultSettings,
      node,
      leaseTtlMs: config.leaseTtlMs,
      approvalTtlMs: config.approvalTtlMs,
      toolResultTimeoutMs: config.toolResultTimeoutMs,
      maxActiveRuns: config.maxActiveRuns,
      compaction: { ...defaultSettings.compaction, ...file.compaction },
    },
    models: (tenantId) => providers.of(tenantId),
    tools: (tenantId) => mcp.over(workspaces.tools(tenantId), tenantId),
    agents: () => agents,
    ...defined({ embedders: embeddings?.embedders }),
    audit: (tenantId, entry) => auditSigner.write(tenantId, entry),
  };
  const control: RunControl = { engine, supervisor: new Supervisor(engine) };
  let stopping = false;
  let unsubscribe = () => {};
  const presence = config.databaseUrl === undefined ? undefined : new Presence(control, config);
  const budgets = new BudgetChecker(store);
  const audit = new AuditSealer({ store, signer: auditSigner, clock, log });
  const signer = new WebhookSigner(rootKey);
  const { publicUrl } = config;
  const deliverer = new WebhookDeliverer({ store, signer, fetch, clock, log, publicUrl });
  const context: ServerContext = {
    store,
    config,
    rates: {
      requests: new RateLimiter(file.rateLimit?.requestsPerMinute ?? defaultRequestsPerMinute),
      failures: new RateLimiter(file.rateLimit?.failuresPerMinute ?? defaultFailuresPerMinute),
    },
    feed,
    metrics,
    log,
    budgets,
    streams,
    vault,
    guard,
    audit,
    signer,
    limits: file.limits ?? {},
    defaultTenantId: tenant.id,
    onKeyAccepted: (keyId) => workspaces.refreshFor(keyId),
    control,
    hub,
    version,
    isStopping: () => stopping,
  };
  const { retentionMs } = config;
  const outputs = new OutputStore({
    retentionMs,
    maxBytes: config.outputBytes,
    folder: join(config.dataDir, 'outputs'),
    store,
    clock,
  });
  const housekeeping = new Housekeeping({ store, clock, log, retentionMs, outputs });
  const app = createApp(context);
  return {
    app,
    control,
    hub,
    feed,
    async start() {
      await killOrphans({ file, hasBash: options.tools === undefined, log });
      if (presence === undefined) {
        await store.releaseAllLeases();
        await endOrphanedChatSessions({ control, config });
      } else {
        await presence.start();
      }
      // Before the supervisor: resumed runs need their tools.
      await mcp.start();
      await control.supervisor.refreshPausedTenants();
      control.supervisor.start();
      const { supervisor } = control;
      unsubscribe = subscribeToPeers({ store, hub, feed, supervisor, budgets, streams, vault });
      housekeeping.start();
      embeddings?.start();
      workspaces.start();
      audit.start();
      deliverer.start();
    },
    async stop() {
      stopping = true;
      await stopAll([
        unsubscribe,
        () => housekeeping.stop(),
        () => embeddings?.stop(),
        () => workspaces.stop(),
        () => control.supervisor.stop(),
        () => mcp.stop(),
        () => deliverer.stop(),
        () => audit.stop(),
        () => presence?.stop(),
        () => tracing.stop(),
        () => streams.stop(),
        () => metrics.stop(),
        () => guard.close(),
        () => app.close(),
      ]);
    },
  };
}

function concealSecrets(log: ServerLog, config: Config): void {
  const { masterKey, previousMasterKey, internalSecret, databaseUrl, traces } = config;
  const password = databaseUrl === undefined ? '' : new URL(databaseUrl).password;
  for (const secret of [masterKey, previousMasterKey, internalSecret, databaseUrl, password]) {
    if (secret !== undefined && secret !== '') log.conceal(secret);
  }
  if (password !== '') log.conceal(decodeURIComponent(password));
  for (const secret of Object.values(traces?.headers ?? {})) log.conceal(secret);
}

/** Runs every step in order, also after one that fails; then throws the errors. */
export async function stopAll(steps: readonly (() => unknown)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, 'Several components failed to stop');
}
