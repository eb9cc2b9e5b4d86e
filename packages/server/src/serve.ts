/** Starts the server: lock, store, listen. Stops it gracefully. */
import { once } from 'node:events';
import { type AddressInfo, createServer, isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import {
  auditRecordsOf,
  type KeyRecord,
  type ModelRegistry,
  type SystemStore,
  type ToolRegistry,
} from '@relay/core';
import { defined, RelayError } from '@relay/protocol';
import { bubblewrapProblem } from '@relay/processes';
import { isFolderInUse } from '@relay/store';
import { completeRestore, operatorAuditEntry } from './audit/operator-entries.ts';
import { checkConfig, loadConfigFile, type RelayConfig } from './config/config-file.ts';
import { compose, type Relay, stopAll } from './compose.ts';
import {
  type Config,
  ConfigError,
  type Installation,
  isForThisMachine,
  readConfig,
} from './config/config.ts';
import { settingsOf, withEnvFile } from './config/env-file.ts';
import { issueCliKey, showFirstKey } from './secrets/keys.ts';
import { issueLink, linkUrl } from './secrets/sign-ins.ts';
import { createLog, type ServerLog } from './observability/log.ts';
import { openStore } from './config/open-store.ts';
import { reachableUrl, registerServer, runningServers } from './registration.ts';
import { unknownSettings } from './config/unknown-settings.ts';

export interface ServeOptions extends Installation {
  readonly terminal: boolean;
  /** Whether the CLI on this machine finds the server by itself, until this process exits. */
  readonly register?: boolean;
  readonly print: (line: string) => void;
  /** Replace the built-in models and tools. */
  readonly models?: ModelRegistry;
  readonly tools?: (config: Config) => ToolRegistry;
  /** Replaces the file `relay.config.ts`. */
  readonly config?: RelayConfig;
}

export interface RunningServer {
  readonly url: string;
  readonly log: ServerLog;
  readonly stopTimeoutMs: number;
  /** The tools and actions that `stop` waits for, for people. */
  workInProgress(): string[];
  stop(): Promise<void>;
}

export interface OpenedServer {
  readonly config: Config;
  readonly store: SystemStore;
  readonly relay: Relay;
  readonly log: ServerLog;
  /** Creates and shows the first key, if there is none. It is shown only once. Returns a key that it created. */
  readonly showFirstKey: () => Promise<KeyRecord | undefined>;
  readonly stop: () => Promise<void>;
}

/** Everything but the port. */
export async function openServer(options: ServeOptions): Promise<OpenedServer> {
  const config = readConfig(options.env, options.cwd);
  const file =
    options.config === undefined
      ? await loadConfigFile(options.env, options.cwd)
      : checkConfig('The configuration', options.config);
  const log = createLog({ level: config.logLevel, terminal: process.stderr.isTTY });
  const closing: (() => Promise<void> | void)[] = [];
  const stop = () => stopAll(closing.splice(0).toReversed());
  try {
    // `compose` needs the result. Another process works on it meanwhile.
    if (options.tools === undefined && config.sandbox !== 'off') void bubblewrapProblem();
    const opening = openStore(config, 'exclusive', { advise: (line) => log.warn(line) });
    // Loaded while the thread of the store starts. `compose` waits for it, and reports a failure.
    import('./http/app.ts').catch(() => undefined);
    const opened = await opening;
    // Not before: a start can be repeated until the data folder is free.
    for (const sentence of unknownSettings(options.env)) log.warn(sentence);
    const { store } = opened;
    closing.push(() => opened.close());
    const relay = await compose({
      config,
      file,
      cwd: options.cwd,
      store,
      log,
      ...defined({ models: options.models, tools: options.tools?.(config) }),
    });
    closing.push(() => relay.stop());
    const { dataDir } = config;
    const { terminal, print } = options;
    const { audit } = relay.control.engine;
    await completeRestore(store, audit, dataDir);
    await relay.start();
    return {
      config,
      store,
      relay,
      log,
      async showFirstKey() {
        let created: KeyRecord | undefined;
        const onCreated = (key: KeyRecord) => void (created = key);
        const lines = await showFirstKey(store, { dataDir, terminal, audit, onCreated });
        for (const line of lines) print(line);
        if (created !== undefined && terminal) await issueCliKey(store, dataDir, created, audit);
        return created;
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

export async function serve(options: ServeOptions): Promise<RunningServer> {
  // Before anything is created: a first start that fails must not have shown a key.
  await checkPort(options);
  const opened = await openServer(options);
  const { config, relay, log, stop } = opened;
  try {
    // First: a client that waits for `/health` reads the key next.
    const firstKey = await opened.showFirstKey();
    let unregister: (() => void) | undefined;
    // Until the port is free: a server that waits for its tools is found. Then another process can listen on it.
    relay.app.addHook('preClose', async () => unregister?.());
    // Before the first response: a client that has it looks for the key of this server next.
    relay.app.server.once('listening', () => {
      if (options.register === true) unregister = register(options, opened);
    });
    await relay.app.listen({ host: config.host, port: config.port });
    const url = urlOf(config, relay.app.server.address());
    options.print(`Relay is listening on ${url}`);
    for (const line of detailLines(opened, url)) options.print(line);
    for (const line of keylessNotes(options.env, config)) options.print(line);
    for (const line of providerKeyNotes(config)) options.print(line);
    // Without a terminal it would be in a log.
    if (firstKey !== undefined && options.terminal) {
      for (const line of await loginLines(opened, firstKey, url, options.env)) options.print(line);
    }
    return {
      url,
      log,
      stopTimeoutMs: config.stopTimeoutMs,
      workInProgress: () => relay.workInProgress(),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Throws if the server cannot listen. */
async function checkPort({ env, cwd }: ServeOptions): Promise<void> {
  const { host, port, dataDir } = readConfig(env, cwd);
  if (port === 0) return;
  const probe = createServer();
  try {
    probe.listen({ host, port });
    await once(probe, 'listening');
  } catch (error) {
    if (!isPortInUse(error)) throw error;
    const other = runningServers(env).find(({ url }) => new URL(url).port === String(port));
    if (other === undefined) throw error;
    const { pid } = other;
    const message =
      other.dataDir === dataDir
        ? `The data folder ${dataDir} is in use by another server, with the pid ${pid}. If that is stopping, ` +
          'it waits for its tools first'
        : `Port ${port} is in use by another Relay server: pid ${pid}, started in ${other.cwd}, ` +
          `data in ${other.dataDir}. Stop it, or choose another port with --port or RELAY_PORT`;
    throw new ConfigError(message, { cause: error });
  } finally {
    await new Promise<void>((resolve) => probe.close(() => resolve()));
  }
}

/** With the address that a host name means now: a name can mean another machine later. */
function register({ env, cwd }: ServeOptions, { config, relay }: OpenedServer): () => void {
  const bound = relay.app.server.address();
  const isName = isIP(config.host) === 0 && config.host !== 'localhost';
  const host = isName && typeof bound === 'object' && bound !== null ? bound.address : config.host;
  return registerServer(env, {
    url: urlOf({ ...config, host }, bound),
    dataDir: config.dataDir,
    cwd,
  });
}

function detailLines({ config, relay }: OpenedServer, url: string): string[] {
  const store = config.databaseUrl === undefined ? 'SQLite' : 'PostgreSQL';
  const details = {
    console: `${config.publicUrl ?? reachableUrl(url)}/console/`,
    data: `${config.dataDir} (${store})`,
    pid: process.pid,
    ...defined({ sandbox: relay.sandbox }),
  };
  const servers = relay.mcpServers().map((server) => ['mcp', mcpText(server)] as const);
  return [...Object.entries(details), ...servers].map(
    ([name, value]) => `  ${name.padEnd(7)}  ${value}`,
  );
}

function mcpText({ name, problem, tools }: ReturnType<Relay['mcpServers']>[number]): string {
  if (problem !== undefined) return `${name} is not connected: ${problem}`;
  return `${name} (${tools} ${tools === 1 ? 'tool' : 'tools'})`;
}

async function loginLines(
  { config, store, relay }: OpenedServer,
  apiKey: KeyRecord,
  url: string,
  env: Installation['env'],
): Promise<string[]> {
  const { engine } = relay.control;
  const { token } = await issueLink(store, engine, apiKey, (what) =>
    auditRecordsOf(engine, apiKey.tenantId, [
      operatorAuditEntry('first start', 'console.link-created', what),
    ]),
  );
  // In a project or a clone, whose script started this server, only npm finds the command.
  const command = env['npm_lifecycle_event'] === undefined ? 'relay' : 'npx relay';
  return [
    '',
    'Open the console (the link works once, within 15 minutes):',
    '',
    `  ${linkUrl(config.publicUrl ?? reachableUrl(url), token)}`,
    '',
    `The command "${command}" needs no key on this machine. Try "${command} chat" in another terminal.`,
    '',
  ];
}

function keylessNotes(env: Installation['env'], { keylessChat }: Config): string[] {
  if (env['RELAY_LOCAL_CHAT']?.trim() !== 'on') return [];
  return keylessChat === 'all'
    ? [
        'WARNING: RELAY_LOCAL_CHAT=on. Every program on this machine, agents and their commands included,',
        'can use all models and tools through /chat without a key, and approve its own calls.',
      ]
    : [
        'RELAY_LOCAL_CHAT=on has no effect: the server is reachable under a public name or address.',
      ];
}

function providerKeyNotes({ providerKeys }: Config): string[] {
  if (providerKeys.length === 0) return [];
  const names = providerKeys.map(({ provider, variable }) => `${provider} (${variable})`);
  return [
    `Provider keys from the environment: ${names.join(', ')}; RELAY_ENV_CREDENTIALS=off ignores them`,
  ];
}

function urlOf(config: Config, address: AddressInfo | string | null): string {
  const port = typeof address === 'object' && address !== null ? address.port : config.port;
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return `http://${host}:${port}`;
}

/** Besides the time that tools get: for connections, webhooks and the store. */
const closeTimeoutMs = 15_000;
/** A start may be waiting for a database that does not answer. */
const abortStartTimeoutMs = 10_000;
const retryInUseMs = 500;

export interface ServeProcessOptions extends Installation {
  /**
   * Reads `.env`. Default: if only this machine reaches the server. The provider keys of the environment are for
   * this machine in any case. Waits for a port and a data folder that are in use.
   */
  readonly development?: boolean;
}

/** Resolves when the server listens. Signals stop the process gracefully, also during the start. */
export async function serveProcess(options: ServeProcessOptions): Promise<void> {
  const env = environmentOf(options);
  // Neither a closed terminal nor a reader that has ended, such as `head`, ends the server.
  for (const stream of [process.stdout, process.stderr]) {
    stream.removeAllListeners('error').on('error', () => {});
  }
  const start = () =>
    serve({
      env,
      cwd: options.cwd,
      terminal: process.stdout.isTTY,
      register: true,
      print: (line) => console.log(line),
    });
  const stopping = new AbortController();
  const starting = options.development === true ? whenFree(start, stopping.signal) : start();
  let running: RunningServer | undefined;
  let stoppedAt: number | undefined;
  // `npm start` holds the other end of a channel. That it closes means that `npm start` was killed.
  for (const event of ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect'] as const) {
    process.on(event, () => {
      if (stoppedAt === undefined) {
        stoppedAt = Date.now();
        stopping.abort();
        const note = running === undefined ? undefined : waitingNote(running, event);
        if (note !== undefined) console.log(note);
        const timeoutMs =
          running === undefined ? abortStartTimeoutMs : running.stopTimeoutMs + closeTimeoutMs;
        void stopProcess(starting, timeoutMs);
      } else if (isSecondRequest(event, Date.now() - stoppedAt)) {
        process.exit(event === 'SIGINT' ? 130 : 143);
      }
    });
  }
  process.channel?.unref();
  // Node would print the error without redaction. The next start recovers from the journal. Runs, and so tools, go
  // on before the server listens.
  process.on('uncaughtException', (error) => {
    const log = running?.log ?? createLog({ level: 'error', terminal: process.stderr.isTTY });
    log.error('Uncaught exception; the process exits', { error });
    process.exit(1);
  });
  running = await starting;
}

/** The server before this one may be waiting for its tools. */
async function whenFree(
  start: () => Promise<RunningServer>,
  signal: AbortSignal,
): Promise<RunningServer> {
  for (let said = ''; ;) {
    try {
      return await start();
    } catch (error) {
      if (!isPortInUse(error) && !isFolderInUse(error)) throw error;
      const reason = explainStartError(error) ?? '';
      if (reason !== said) console.log(`${reason}. Waiting until it is free …`);
      said = reason;
      await delay(retryInUseMs, undefined, { signal }).catch(() => process.exit(0));
    }
  }
}

/** Also as a cause, of the error that names the other server. */
function isPortInUse(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  return code === 'EADDRINUSE' || (cause !== undefined && isPortInUse(cause));
}

/** A terminal, npm and `relay dev` all pass on a signal, so that one request can arrive several times. */
function isSecondRequest(event: string, afterMs: number): boolean {
  return (event === 'SIGINT' || event === 'SIGTERM') && afterMs > 1_000;
}

function waitingNote(running: RunningServer, event: string): string | undefined {
  const work = running.workInProgress();
  if (work.length === 0 || running.stopTimeoutMs === 0) return undefined;
  const seconds = Math.ceil(running.stopTimeoutMs / 1_000);
  const calls = `${work.length} ${work.length === 1 ? 'call' : 'calls'}`;
  const names = work.length > 5 ? [...work.slice(0, 5), '…'] : work;
  const note = `Waiting up to ${seconds} s for ${calls} to finish: ${names.join(', ')}.`;
  // After another signal the terminal may be that of another program.
  return process.stdout.isTTY && event === 'SIGINT'
    ? `${note} Press Ctrl-C again to stop now.`
    : note;
}

function environmentOf(options: ServeProcessOptions): Installation['env'] {
  const { env, development } = options;
  const merged = development === true ? withEnvFile(options) : settingsOf(options);
  // The code of `relay.config.ts` reads `process.env`.
  for (const [name, value] of Object.entries(merged)) {
    if (env[name] === undefined && value !== undefined) process.env[name] ??= value;
  }
  if (development !== true || merged['RELAY_ENV_CREDENTIALS'] !== undefined) return merged;
  if (isForThisMachine(merged)) return { ...merged, RELAY_ENV_CREDENTIALS: 'on' };
  console.log(
    'Provider keys from the environment are not used, because other machines can reach the server; ' +
      'RELAY_ENV_CREDENTIALS=on uses them',
  );
  return merged;
}

async function stopProcess(starting: Promise<RunningServer>, timeoutMs: number): Promise<void> {
  // Work that hangs is recovered from the journal by the next start.
  setTimeout(() => process.exit(1), timeoutMs).unref();
  const running = await starting.catch(() => undefined);
  // A failed start is reported by the caller of `serveProcess`.
  if (running === undefined) return;
  await running.stop();
  process.exit(0);
}

/** The line of a file that a failed start is about, with a marker. */
export function startErrorExcerpt(error: unknown): string | undefined {
  return error instanceof ConfigError ? error.excerpt : undefined;
}

/** One line for the operator; undefined for an unexpected error. */
export function explainStartError(error: unknown): string | undefined {
  if (error instanceof ConfigError || error instanceof RelayError) return error.message;
  const { code, port } = (error ?? {}) as { code?: string; port?: number };
  if (code === 'EADDRINUSE')
    return `Port ${port} is in use; choose another one with --port or RELAY_PORT`;
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `Relay cannot listen: ${(error as Error).message}; check --host and --port, or RELAY_HOST and RELAY_PORT`;
  }
  return undefined;
}
