/** The composition root: the only place where adapters are connected to the core. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  type AuditEntry,
  combinePublishers,
  defaultInboxLimit,
  type RunControl,
  defaultSettings,
  type Engine,
  InvocationRunner,
  type Log,
  SessionAttendant,
  Supervisor,
  systemClock,
  type SystemStore,
  MemoryBudget,
  TranscriptCache,
} from '@relay/core';
import { withPresets } from '@relay/harnesses';
import { defined, type StoredEvent, type StoredSessionEvent } from '@relay/protocol';
import { killOrphanProcesses } from '@relay/processes';
import { isProgram, type McpServerConfig } from '@relay/tools';
import type { McpServerStatus } from '@relay/tools/mcp';
import type { FastifyInstance } from 'fastify';
import { uuidv7 } from 'uuidv7';
import { HeadSigner } from './audit/export.ts';
import { KeyActivity } from './jobs/key-activity.ts';
import { AuditSealer } from './audit/sealer.ts';
import { AuditSigner } from './audit/signer.ts';
import { auditRotation, auditWriter } from './audit/operator-entries.ts';
import { bashSettings, type RelayConfig } from './config/config-file.ts';
import { TenantBudgets } from './http/budgets.ts';
import { type Config, ConfigError } from './config/config.ts';
import { consoleFolder } from './http/console-pages.ts';
import type { ServerContext } from './http/handlers/handler.ts';
import { assembleDefinitions, type Replacements } from './config/definitions.ts';
import { openEmbeddings } from './jobs/embeddings.ts';
import { Feed } from './streaming/feed.ts';
import { createHousekeeping } from './jobs/housekeeping.ts';
import { sweepOutputs } from './workspaces/sweep-outputs.ts';
import { Hub } from './streaming/hub.ts';
import { asServerLog, type ServerLog } from './observability/log.ts';
import { Workspaces } from './workspaces/workspaces.ts';
import { createActionCaller } from './outbound/actions.ts';
import { OutboundGuards } from './outbound/guards.ts';
import { openMcp } from './outbound/mcp.ts';
import { NamedTenants } from './outbound/named-tenants.ts';
import { Metrics } from './observability/metrics.ts';
import { subscribeToNodes } from './jobs/node-notifications.ts';
import { endChatSession, endOrphanedChatSessions } from './streaming/chat-sessions.ts';
import { OpenStreams } from './streaming/open-streams.ts';
import { NodeHeartbeat } from './jobs/node-heartbeat.ts';
import { readModelTable } from './config/model-table.ts';
import { isOffered, Providers } from './outbound/providers.ts';
import { ConcurrencyLimiter, RateLimiter } from './http/rate-limit.ts';
import { openTracing } from './observability/tracing.ts';
import { masterKeys, derive, openRootKey } from './secrets/master-key.ts';
import { AgentProcesses } from './sessions/agent-processes.ts';
import { HarnessHost, nodeNameOf } from './sessions/harness-host.ts';
import { builtInHarnesses, HarnessRegistry } from './sessions/harnesses.ts';
import { Vault } from './secrets/vault.ts';
import { WebhookDeliverer } from './jobs/webhook-deliverer.ts';
import { WebhookSigner } from './secrets/webhook-signer.ts';
import { version } from './version.ts';

export const ids = { next: uuidv7 };

/** Far above what a client needs, far below what would slow down other clients. */
const defaultRequestsPerMinute = 60_000;
const defaultTenantRequestsPerMinute = 240_000;
const defaultMegabytesPerMinute = 4_096;
const defaultFailuresPerMinute = 600;
/** Of keys that are not known to be valid, from an address with too many failures. */
const lookupsPerMinute = 60;

export interface ComposeOptions extends Replacements {
  readonly config: Config;
  /** What `relay.config.ts` defines. */
  readonly file?: RelayConfig;
  /** In which MCP programs run. Default: that of this process. */
  readonly cwd?: string;
  readonly store: SystemStore;
  readonly log: Log | ServerLog;
  /** Default: the built files of `@relay/console`. */
  readonly consoleDir?: string;
}

export interface Relay {
  readonly app: FastifyInstance;
  readonly control: RunControl;
  readonly hub: Hub<StoredEvent>;
  readonly sessionHub: Hub<StoredSessionEvent>;
  readonly programHub: Hub<StoredSessionEvent>;
  readonly feed: Feed;
  /** Which commands run in a sandbox; undefined if no tenant can run any. */
  readonly sandbox?: string;
  /** All MCP servers of the configuration. */
  mcpServers(): readonly McpServerStatus[];
  /** The tools and actions that a stop waits for, for people. */
  workInProgress(): string[];
  /** Recovers runs of an earlier process and starts all background work. */
  start(): Promise<void>;
  /** Releases all runs gracefully. The caller closes the store. */
  stop(): Promise<void>;
}

export async function compose(options: ComposeOptions): Promise<Relay> {
  const { config, store } = options;
  const log = asServerLog(options.log);
  registerSecrets(log, config);
  const hub = new Hub<StoredEvent>((runIds) => store.lastSeqs(runIds));
  const sessionHub = new Hub<StoredSessionEvent>((ids) => store.sessions.lastSeqs(ids));
  const programHub = new Hub<StoredSessionEvent>((ids) => store.sessions.versions(ids));
  const feed = new Feed();
  const streams = new OpenStreams(store);
  const metrics = new Metrics(store, {
    activeRuns: () => control.supervisor.activeRuns,
    openStreams: () => streams.size,
  });
  const { file = {} } = options;
  const ignoreDamage = store.onDamagedRow((row) => {
    metrics.damagedRow(row);
    log.error('A row was changed in the database and gives no right; see relay doctor', {
      ...row,
    });
  });
  const { models, tools, agents, actions } = assembleDefinitions(config, file, options);
  const masters = masterKeys(config);
  for (const { bytes } of masters) {
    for (const form of ['hex', 'base64', 'base64url'] as const) log.addSecret(bytes.toString(form));
  }
  const vault = new Vault({ store, masters, ids, log });
  await vault.open();
  const rootKey = await openRootKey(store, masters, (key) =>
    auditRotation(store, auditWriter(key), masters),
  );
  const auditSigner = new AuditSigner(derive(rootKey, 'audit'));
  const clock = systemClock;
  const tenants = new NamedTenants({ store, clock, log }, [
    ...config.privateNetworks.flatMap(({ tenant }) => tenant ?? []),
    ...Object.values(options.file?.mcpServers ?? {}).flatMap((server) => server.tenants ?? []),
  ]);
  const guards = new OutboundGuards(config.privateNetworks, tenants);
  const table = readModelTable(config.dataDir);
  const providers = new Providers({
    builtIn: models,
    vault,
    guards,
    table,
    ...file.providers,
  });
  const embeddings = openEmbeddings({ config, file, providers, store, vault, clock, log });
  const { defaultModel } = config;
  if (defaultModel !== undefined && !isOffered(models, defaultModel)) {
    throw new ConfigError(`RELAY_DEFAULT_MODEL: no provider offers the model ${defaultModel}`);
  }
  const tenant = await store.ensureTenant({ id: ids.next(), name: 'default', at: Date.now() });
  vault.useEnvironment(tenant.id, config.providerKeys);
  // A caller that replaces the tools also replaces those of workspaces.
  const bash = options.tools === undefined ? await bashSettings(config, file.bash) : undefined;
  const workspaces = new Workspaces({
    store,
    config,
    defaultTenantId: tenant.id,
    tools,
    ...defined({ bash }),
    clock,
    log,
  });
  await workspaces.open();
  const mcp = await openMcp({
    servers: file.mcpServers,
    store,
    guards,
    tenants,
    dataDir: config.dataDir,
    cwd: options.cwd ?? process.cwd(),
    tools,
    agents,
    clock,
    log,
  });
  const node = ids.next();
  const tracing = await openTracing({ settings: config.traces, store, log, node, version });
  const budgets = new TenantBudgets(store);
  const writeAudit = (tenantId: string, entry: AuditEntry) => auditSigner.write(tenantId, entry);
  const activity = new KeyActivity({ store, clock, log, audit: writeAudit });
  const signer = new WebhookSigner(rootKey);
  const fetchFor = (tenantId: string) => guards.of(tenantId).fetch;
  const invocations = new InvocationRunner({
    engine: () => engine,
    own: actions,
    call: createActionCaller({ signer, fetchFor, clock }),
    isPaused: (tenantId) => control.supervisor.isPaused(tenantId),
  });
  const engine: Engine = {
    store,
    budgets: (tenantId, keyId) => budgets.of(tenantId, keyId),
    transcripts: new TranscriptCache(),
    memory: new MemoryBudget(config.runMemoryBytes),
    clock,
    ids,
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    publisher: combinePublishers(
      {
        streams: (runId, events) => hub.publish(runId, events),
        feed: (runId, events, tenantId) => feed.publish(tenantId, runId, events),
        metrics: (runId, events, tenantId) => metrics.publish(runId, events, tenantId),
        traces: (runId, events, tenantId) => tracing.publish(runId, events, tenantId),
        embeddings: (_runId, events, tenantId) => embeddings?.worker.publish(events, tenantId),
      },
      log,
    ),
    log,
    redact: (text) => log.withoutKeys(text),
    settings: {
      ...defaultSettings,
      node,
      leaseTtlMs: config.leaseTtlMs,
      stopTimeoutMs: config.stopTimeoutMs,
      approvalTtlMs: config.approvalTtlMs,
      toolResultTimeoutMs: config.toolResultTimeoutMs,
      maxActiveRuns: config.maxActiveRuns,
      providerAttempts: config.providerAttempts,
      providerWaitMs: config.providerWaitMs,
      maxAnswerChars: config.maxAnswerChars,
      deliveryTtlMs: config.deliveryTtlMs,
      inboxLimit: { ...defaultInboxLimit, messages: config.inboxLimit },
      compaction: { ...defaultSettings.compaction, ...file.compaction },
    },
    models: (tenantId) => providers.of(tenantId),
    tools(tenantId) {
      const base = workspaces.tools(tenantId);
      return mcp?.withMcpTools(base, tenantId) ?? base;
    },
    workspace: (tenantId) => workspaces.folderOf(tenantId),
    agents: () => agents,
    notifyRun: (run) => control.supervisor.notify(run),
    sessionDue: (session) => void attendant.wake(session),
    ...defined({ embedders: embeddings?.embedders }),
    audit: writeAudit,
    refused: (...refusal) => activity.refused(...refusal),
    onMessage: (tenantId, notice) => metrics.publishMessage(tenantId, notice),
    invocations,
    onApproval: (tenantId, { id, isNew }) => {
      feed.add(tenantId, { kind: 'approval', id });
      if (isNew) metrics.approvalRequested(tenantId);
    },
    onInvocation: (tenantId, invocation) => metrics.publishInvocation(tenantId, invocation),
  };
  const control: RunControl = { engine, supervisor: new Supervisor(engine) };
  const processes = new AgentProcesses({
    store,
    config,
    vault,
    workspaces,
    defaultTenantId: tenant.id,
    sandbox: bash?.sandbox,
    log,
  });
  const hosting = { engine, hub: programHub, streams, processes, node: nodeNameOf(config) };
  const host = new HarnessHost(hosting, withPresets(file.harnesses ?? []));
  const builtIn = builtInHarnesses(control, {
    limits: file.limits ?? {},
    defaultModel: config.defaultModel,
  });
  const harnesses = new HarnessRegistry(engine, [...builtIn, ...host.harnesses]);
  const attendant = new SessionAttendant({
    engine,
    attend: (session) => harnesses.of(session).attend(session),
  });
  let stopping = false;
  const endings = new Set<Promise<void>>();
  let unsubscribe = () => {};
  const heartbeat =
    config.databaseUrl === undefined ? undefined : new NodeHeartbeat(control, config);
  const audit = new AuditSealer({
    store,
    signer: auditSigner,
    heads: new HeadSigner(derive(rootKey, 'audit heads')),
    clock,
    log,
  });
  const { publicUrl } = config;
  const deliverer = new WebhookDeliverer({
    store,
    signer,
    fetchFor,
    clock,
    log,
    publicUrl,
    pausedTenants: () => control.supervisor.pausedTenants,
  });
  const context: ServerContext = {
    store,
    config,
    rates: createRates(config, file.rateLimit),
    feed,
    metrics,
    log,
    budgets,
    streams,
    vault,
    guards,
    audit,
    signer,
    requestStateKey: derive(rootKey, 'mcp request states'),
    limits: file.limits ?? {},
    defaultTenantId: tenant.id,
    activity,
    onKeyAccepted: (keyId) => workspaces.refreshFor(keyId),
    control,
    hub,
    sessionHub,
    programHub,
    harnesses,
    mcpServers: (tenantId) => mcp?.status(tenantId) ?? [],
    version,
    consoleDir: options.consoleDir ?? consoleFolder(),
    isStopping: () => stopping,
    endings,
  };
  const { retentionMs, outputBytes: maxBytes } = config;
  const folder = join(config.dataDir, 'outputs');
  const housekeeping = createHousekeeping({
    store,
    clock,
    log,
    retentionMs,
    sweepOutputs: () => sweepOutputs({ store, clock, retentionMs, maxBytes, folder }),
  });
  const { createApp } = await import('./http/app.ts');
  const app = createApp(context);
  app.addHook('onListen', async () => processes.listens(app.server.address()));
  return {
    app,
    control,
    hub,
    sessionHub,
    programHub,
    feed,
    ...defined({ sandbox: workspaces.isEmpty ? undefined : bash?.summary }),
    mcpServers: () => mcp?.status() ?? [],
    workInProgress: () => [
      ...control.supervisor.toolsToWaitFor.map(({ name, runId }) => `${name} (run ${runId})`),
      ...invocations.handlersToWaitFor.map(
        ({ name, invocationId }) => `${name} (invocation ${invocationId})`,
      ),
    ],
    async start() {
      await killOrphans(file.mcpServers ?? {}, options.tools === undefined, log);
      if (heartbeat === undefined) {
        await store.releaseAllLeases();
        for (const session of await endOrphanedChatSessions(context)) {
          endChatSession(context, session);
        }
      } else {
        await heartbeat.start();
      }
      // Before the supervisor: resumed runs need their tools.
      await tenants.start();
      await mcp?.start();
      await control.supervisor.refreshPausedTenants();
      control.supervisor.start();
      unsubscribe = subscribeToNodes(context);
      attendant.start();
      await host.start();
      invocations.begin();
      housekeeping.start();
      embeddings?.worker.start();
      workspaces.start();
      audit.start();
      activity.start();
      deliverer.start();
    },
    async stop() {
      stopping = true;
      await stopAll([
        unsubscribe,
        // What they have begun gets the same time to finish.
        [
          () => host.stop(),
          () => invocations.stop(),
          () =>
            stopAll([
              () => attendant.stop(),
              () => Promise.all(endings),
              () => control.supervisor.stop(),
            ]),
        ],
        () => housekeeping.stop(),
        () => embeddings?.worker.stop(),
        () => workspaces.stop(),
        // What the runs have done until here is on its way to their readers.
        () => streams.stop(),
        () => mcp?.stop(),
        () => deliverer.stop(),
        () => activity.stop(),
        () => audit.stop(),
        () => heartbeat?.stop(),
        () => tracing.stop(),
        ignoreDamage,
        () => metrics.stop(),
        () => tenants.stop(),
        () => guards.close(),
        () => closeApp(app),
      ]);
    },
  };
}

const closeTimeoutMs = 5_000;
const closeIdleMs = 20;

/** Responses in progress are completed; a client that does not read its response is disconnected. */
async function closeApp(app: FastifyInstance): Promise<void> {
  const idle = setInterval(() => app.server.closeIdleConnections(), closeIdleMs);
  const late = setTimeout(() => app.server.closeAllConnections(), closeTimeoutMs);
  try {
    await app.close();
  } finally {
    clearInterval(idle);
    clearTimeout(late);
  }
}

function registerSecrets(log: ServerLog, config: Config): void {
  const { masterKey, previousMasterKey, internalSecret, databaseUrl, traces } = config;
  const password = databaseUrl === undefined ? '' : new URL(databaseUrl).password;
  for (const secret of [masterKey, previousMasterKey, internalSecret, databaseUrl, password]) {
    if (secret !== undefined && secret !== '') log.addSecret(secret);
  }
  if (password !== '') log.addSecret(decodeURIComponent(password));
  for (const secret of Object.values(traces?.headers ?? {})) log.addSecret(secret);
}

/**
 * Kills the commands and MCP programs that a killed server left running. Runs before anything else
 * starts: an approver who is asked about their outcome must know that they have ended, and no program
 * may run twice.
 */
async function killOrphans(
  mcpServers: Readonly<Record<string, McpServerConfig>>,
  hasBash: boolean,
  log: Log,
): Promise<void> {
  const hasPrograms = Object.values(mcpServers).some(isProgram);
  if (!hasBash && !hasPrograms) return;
  const ended = await killOrphanProcesses();
  if (ended > 0) log.warn('Killed orphaned processes of an earlier server', { ended });
}

type StopStep = () => unknown;

/** Runs every step in order, those of a list together, also after one that fails; then throws the errors. */
export async function stopAll(steps: readonly (StopStep | readonly StopStep[])[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) {
    const together = typeof step === 'function' ? [step] : step;
    const results = await Promise.allSettled(together.map(async (each) => each()));
    errors.push(...results.flatMap((each) => (each.status === 'rejected' ? [each.reason] : [])));
  }
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, 'Several components failed to stop');
}

function createRates(
  config: Config,
  limits: RelayConfig['rateLimit'] = {},
): ServerContext['rates'] {
  const rate = (perMinute: number, what: string, setting: string) =>
    new RateLimiter(perMinute, { what, setting: `rateLimit.${setting} in relay.config.ts` });
  const {
    requestsPerMinute = defaultRequestsPerMinute,
    tenantRequestsPerMinute = defaultTenantRequestsPerMinute,
    megabytesPerMinute = defaultMegabytesPerMinute,
    failuresPerMinute = defaultFailuresPerMinute,
  } = limits;
  const bodies = { most: config.requestMemoryBytes, setting: 'RELAY_REQUEST_MEMORY_MB' };
  const half = { ...bodies, most: Math.ceil(bodies.most / 2) };
  return {
    requests: rate(requestsPerMinute, 'requests of a key', 'requestsPerMinute'),
    tenantRequests: rate(
      tenantRequestsPerMinute,
      'requests of a tenant',
      'tenantRequestsPerMinute',
    ),
    megabytes: rate(megabytesPerMinute, 'megabytes of a key', 'megabytesPerMinute'),
    failures: rate(failuresPerMinute, 'failed authentications of an address', 'failuresPerMinute'),
    lookups: rate(lookupsPerMinute, 'unknown keys of an address', 'failuresPerMinute'),
    streams: new ConcurrencyLimiter('streams and waiting requests', {
      perKey: { most: config.maxStreamsPerKey, setting: 'RELAY_MAX_STREAMS_PER_KEY' },
      perTenant: { most: config.maxStreamsPerTenant, setting: 'RELAY_MAX_STREAMS_PER_TENANT' },
      perNode: { most: config.maxStreams, setting: 'RELAY_MAX_STREAMS' },
    }),
    bodies: new ConcurrencyLimiter('bytes of requests', {
      perKey: half,
      perTenant: half,
      perNode: bodies,
    }),
  };
}
