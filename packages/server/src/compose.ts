/** The composition root: the world is wired to core here, and nowhere else. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  combinePublishers,
  type Control,
  defaultSettings,
  type Engine,
  type Log,
  Supervisor,
  systemClock,
  type SystemStore,
  TranscriptCache,
} from '@relay/core';
import { createGuardedFetch, createOutboundGuard } from '@relay/models';
import type { FastifyInstance } from 'fastify';
import { uuidv7 } from 'uuidv7';
import { createApp } from './http/app.ts';
import { AuditSealer } from './audit/sealer.ts';
import { AuditSigner } from './audit/signer.ts';
import { tellOfRotation, writerOf } from './audit/operator.ts';
import { bashSettings } from './config/bash-settings.ts';
import { BudgetChecker } from './jobs/budgets.ts';
import { type Config, ConfigError } from './config/config.ts';
import type { RelayConfig } from './config/config-file.ts';
import type { ServerContext } from './http/handlers/handler.ts';
import { assembleDefinitions, type Replacements } from './config/definitions.ts';
import { openEmbeddings } from './embeddings/embeddings.ts';
import { Feed } from './streaming/feed.ts';
import { Housekeeping } from './jobs/housekeeping.ts';
import { OutputStore } from './workspace/output-store.ts';
import { Hub } from './streaming/hub.ts';
import { asServerLog, type ServerLog } from './observability/log.ts';
import { killOrphans } from './workspace/kill-orphans.ts';
import { openMcp } from './outbound/mcp.ts';
import { Metrics } from './observability/metrics.ts';
import { subscribeToPeers } from './jobs/peers.ts';
import { endOrphanedChatSessions, OpenStreams } from './streaming/connections.ts';
import { Presence } from './jobs/presence.ts';
import { isOffered, Providers } from './outbound/providers.ts';
import { RateLimiter } from './http/rate-limit.ts';
import { stopAll } from './stop-all.ts';
import { openTracing } from './observability/tracing/tracing.ts';
import { masterKeys } from './secrets/vault/master-key.ts';
import { derive, openRootKey } from './secrets/vault/root-key.ts';
import { Vault } from './secrets/vault/vault.ts';
import { WebhookDeliverer } from './webhooks/deliverer.ts';
import { Signer } from './webhooks/signer.ts';
import { version } from './version.ts';
import { Workspaces } from './workspace/workspaces.ts';

export const ids = { next: uuidv7 };

/** Far above what a program needs, far below what would hold others up. */
const defaultRequestsPerMinute = 60_000;
const defaultFailuresPerMinute = 600;

export interface World extends Replacements {
  readonly config: Config;
  /** What `relay.config.ts` defines. */
  readonly file?: RelayConfig;
  readonly store: SystemStore;
  readonly log: Log | ServerLog;
}

export interface Relay {
  readonly app: FastifyInstance;
  readonly control: Control;
  readonly hub: Hub;
  readonly feed: Feed;
  /** Takes up what an earlier process left, and begins to look for work. */
  start(): Promise<void>;
  /** Lets go of all runs in good order. The store is the caller's to close. */
  stop(): Promise<void>;
}

export async function compose(world: World): Promise<Relay> {
  const { config, store } = world;
  const log = asServerLog(world.log);
  concealSecrets(log, config);
  const hub = new Hub();
  const feed = new Feed();
  const streams = new OpenStreams(store);
  const metrics = new Metrics(store, {
    activeRuns: () => control.supervisor.activeRuns,
    openStreams: () => streams.size,
  });
  const { file = {} } = world;
  const { models, tools, agents } = assembleDefinitions(config, file, world);
  const masters = masterKeys(config);
  const vault = new Vault({ store, masters, ids, log });
  await vault.open();
  const rootKey = await openRootKey(store, masters, (key) =>
    tellOfRotation(store, writerOf(key), masters),
  );
  const auditSigner = new AuditSigner(derive(rootKey, 'audit'), ids);
  const guard = createOutboundGuard(config.privateNetworks);
  const fetch = createGuardedFetch(guard);
  const providers = new Providers({ builtIn: models, store, vault, guard, ...file.providers });
  const embeddings = openEmbeddings({
    config,
    file,
    providers,
    store,
    vault,
    clock: systemClock,
    log,
  });
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
    // Whoever brings all the tools brings these too, or goes without.
    ...(world.tools === undefined ? { bash: bashSettings(config, file.bash) } : {}),
    clock: systemClock,
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
    clock: systemClock,
    log,
  });
  const node = ids.next();
  const settings = config.traces;
  const tracing = await openTracing({ settings, store, log, node, version });
  const engine: Engine = {
    store,
    transcripts: new TranscriptCache(),
    clock: systemClock,
    ids,
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    publisher: combinePublishers(
      {
        streams: (runId, events) => hub.publish(runId, events),
        feed: (runId, events, tenantId) => feed.publish(tenantId, runId, events),
        metrics: (runId, events) => metrics.publish(runId, events),
        traces: (runId, events, tenantId) => tracing.publish(runId, events, tenantId),
        embeddings: (_runId, events, tenantId) => embeddings?.heard(events, tenantId),
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
    ...(embeddings === undefined ? {} : { embedders: embeddings.embedders }),
    audit: (tenantId, entry) => auditSigner.write(tenantId, entry),
  };
  const control: Control = { engine, supervisor: new Supervisor(engine) };
  let stopping = false;
  let unsubscribe = () => {};
  const presence = config.databaseUrl === undefined ? undefined : new Presence(control, config);
  const budgets = new BudgetChecker(store);
  const audit = new AuditSealer({ store, signer: auditSigner, clock: systemClock, log });
  const signer = new Signer(rootKey);
  const { publicUrl } = config;
  const deliverer = new WebhookDeliverer({
    store,
    signer,
    fetch,
    clock: systemClock,
    log,
    publicUrl,
  });
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
  const kept = {
    retentionMs,
    maxBytes: config.outputBytes,
    folder: join(config.dataDir, 'outputs'),
  };
  const outputs = new OutputStore({ ...kept, store, clock: systemClock });
  const housekeeping = new Housekeeping({ store, clock: systemClock, log, retentionMs, outputs });
  const app = createApp(context);
  return {
    app,
    control,
    hub,
    feed,
    async start() {
      await killOrphans({ file, hasBash: world.tools === undefined, log });
      if (presence === undefined) {
        await store.releaseAllLeases();
        await endOrphanedChatSessions({ control, config });
      } else {
        await presence.start();
      }
      // Runs that are taken up find their tools.
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
