/** The server's configuration, read once from the environment. A mistake stops the start. */
import { isIP } from 'node:net';
import { isAbsolute, resolve } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import { defaultSettings } from '@relay/core';
import { parsePrivateNetwork } from '@relay/models';
import { type LogLevel, logLevels } from '../observability/log.ts';
import { type ProviderKey, providerKeys } from './provider-keys.ts';

export interface Config {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** The name of this node. Default: one that is kept in the data folder. */
  readonly nodeId: string | undefined;
  /** PostgreSQL, shared by several nodes. Undefined: SQLite in the data folder. */
  readonly databaseUrl: string | undefined;
  /** The workspace folder of the tenant `default`. */
  readonly workspace: string | undefined;
  /** `auto`: commands that a rule allowed run in a sandbox, where bubblewrap works. */
  readonly sandbox: 'auto' | 'bwrap' | 'off';
  /** What callers on this machine may use without a key: nothing, the demonstration, or everything. */
  readonly keylessChat: 'off' | 'demo' | 'all';
  /** Keys of model providers from the environment, for the tenant `default`. Empty unless in development. */
  readonly providerKeys: readonly ProviderKey[];
  readonly defaultModel: string | undefined;
  /** The embedding model. Undefined: the one in `relay.config.ts`, or none. */
  readonly embeddings: string | undefined;
  readonly leaseTtlMs: number;
  /** How long running tools may finish when the server stops. */
  readonly stopTimeoutMs: number;
  readonly approvalTtlMs: number;
  readonly toolResultTimeoutMs: number;
  readonly maxActiveRuns: number;
  readonly providerAttempts: number;
  readonly providerWaitMs: number;
  /** Memory for the runs that this node drives, as an estimate. */
  readonly runMemoryBytes: number;
  /** The most characters of an answer. */
  readonly maxAnswerChars: number;
  /** Open streams and waiting requests on this node. */
  readonly maxStreams: number;
  readonly maxStreamsPerTenant: number;
  readonly maxStreamsPerKey: number;
  /** Bodies of requests that are being received. */
  readonly requestMemoryBytes: number;
  readonly disconnect: 'cancel' | 'detach';
  /** The most messages that wait for one session. */
  readonly inboxLimit: number;
  /** How long messages wait for a session that is offline. */
  readonly deliveryTtlMs: number;
  /** Sessions on this node whose agents are processes. */
  readonly maxAgents: number;
  /** How long a conversation is kept after its last run has ended. Undefined: forever. */
  readonly retentionMs: number | undefined;
  /** Limit on the stored long outputs of commands, in total. */
  readonly outputBytes: number;
  /** Accepted `Host` names. Empty: any, or only loopback names if the server listens on loopback. */
  readonly allowedHosts: readonly string[];
  /** Origins that may call the API besides the server's own. */
  readonly allowedOrigins: readonly string[];
  readonly masterKey: string | undefined;
  readonly previousMasterKey: string | undefined;
  /** Networks that the URLs of all tenants may point into, or those of one. */
  readonly privateNetworks: readonly PrivateNetworkSetting[];
  /** Authenticates Relay's own components instead of a key. Undefined: they are rejected. */
  readonly internalSecret: string | undefined;
  readonly traces: TraceSettings | undefined;
  readonly logLevel: LogLevel;
  /** The server's URL for its users. Undefined: webhooks carry no links. */
  readonly publicUrl: string | undefined;
}

export interface PrivateNetworkSetting {
  /** The name of the only tenant that it is open to. */
  readonly tenant?: string;
  /** A CIDR, with a port if only that is open. */
  readonly network: string;
}

/** A mistake in the configuration. Its message is shown to the operator as one line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** The lines of a file that it is about, for people. */
  readonly excerpt: string | undefined;

  constructor(
    message: string,
    options: ErrorOptions & { readonly excerpt?: string | undefined } = {},
  ) {
    super(message, options);
    this.excerpt = options.excerpt;
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Which installation a server or an operator's command works on. */
export interface Installation {
  readonly env: Environment;
  readonly cwd: string;
}

export function readConfig(env: Environment, cwd: string): Config {
  const dataDir = text(env, 'RELAY_DATA_DIR') ?? '.relay';
  const host = hostOf(env);
  const allowedHosts = listed(env, 'RELAY_ALLOWED_HOSTS', hostNameOf);
  const publicUrl = publicUrlOf(env);
  return {
    host,
    port: integer(env, 'RELAY_PORT', { fallback: 4000, min: 0, max: 65_535 }),
    dataDir: isAbsolute(dataDir) ? dataDir : resolve(cwd, dataDir),
    nodeId: text(env, 'RELAY_NODE_ID'),
    databaseUrl: databaseUrlOf(env),
    workspace: folderOf(env, cwd),
    sandbox: choice(env, 'RELAY_SANDBOX', ['auto', 'bwrap', 'off']) ?? 'auto',
    keylessChat: keylessChatOf(env, [host, ...allowedHosts, ...hostsOf(publicUrl)]),
    providerKeys: hasEnvironmentKeys(env)
      ? providerKeys(
          (name) => text(env, name),
          (message) => {
            throw new ConfigError(message);
          },
        )
      : [],
    defaultModel: text(env, 'RELAY_DEFAULT_MODEL'),
    embeddings: text(env, 'RELAY_EMBEDDINGS'),
    leaseTtlMs: integer(env, 'RELAY_LEASE_TTL_MS', { fallback: 15_000, min: 100, max: 3_600_000 }),
    stopTimeoutMs: integer(env, 'RELAY_STOP_TIMEOUT_MS', {
      fallback: defaultSettings.stopTimeoutMs,
      min: 0,
      max: 3_600_000,
    }),
    approvalTtlMs: integer(env, 'RELAY_APPROVAL_TTL_MS', {
      fallback: 24 * 60 * 60 * 1000,
      min: 1,
      max: 365 * 24 * 60 * 60 * 1000,
    }),
    toolResultTimeoutMs: integer(env, 'RELAY_TOOL_RESULT_TIMEOUT_MS', {
      fallback: 10 * 60 * 1000,
      min: 1,
      max: 24 * 60 * 60 * 1000,
    }),
    maxActiveRuns: integer(env, 'RELAY_MAX_ACTIVE_RUNS', { fallback: 256, min: 1, max: 100_000 }),
    providerAttempts: integer(env, 'RELAY_PROVIDER_ATTEMPTS', {
      fallback: defaultSettings.providerAttempts,
      min: 1,
      max: 100,
    }),
    providerWaitMs: integer(env, 'RELAY_PROVIDER_WAIT_MS', {
      fallback: defaultSettings.providerWaitMs,
      min: 0,
      max: 3_600_000,
    }),
    runMemoryBytes:
      megabyte *
      integer(env, 'RELAY_RUN_MEMORY_MB', {
        fallback: defaultRunMemoryMb,
        min: 16,
        max: 1_000_000,
      }),
    maxAnswerChars: integer(env, 'RELAY_MAX_ANSWER_CHARS', {
      fallback: 4 * megabyte,
      min: 1_000,
      max: 64 * megabyte,
    }),
    maxStreams: integer(env, 'RELAY_MAX_STREAMS', { fallback: 20_000, min: 1, max: 1_000_000 }),
    maxStreamsPerTenant: integer(env, 'RELAY_MAX_STREAMS_PER_TENANT', {
      fallback: 10_000,
      min: 1,
      max: 1_000_000,
    }),
    maxStreamsPerKey: integer(env, 'RELAY_MAX_STREAMS_PER_KEY', {
      fallback: 1_000,
      min: 1,
      max: 1_000_000,
    }),
    requestMemoryBytes:
      megabyte *
      integer(env, 'RELAY_REQUEST_MEMORY_MB', { fallback: 512, min: 20, max: 1_000_000 }),
    inboxLimit: integer(env, 'RELAY_INBOX_LIMIT', { fallback: 1_000, min: 1, max: 100_000 }),
    deliveryTtlMs: integer(env, 'RELAY_DELIVERY_TTL_MS', {
      fallback: 10 * 60_000,
      min: 1_000,
      max: 30 * dayMs,
    }),
    maxAgents: integer(env, 'RELAY_MAX_AGENTS', { fallback: 16, min: 1, max: 10_000 }),
    disconnect: choice(env, 'RELAY_DISCONNECT', ['cancel', 'detach']) ?? 'cancel',
    retentionMs: retentionOf(env),
    outputBytes:
      megabyte * integer(env, 'RELAY_OUTPUT_MB', { fallback: 10_240, min: 1, max: 100_000_000 }),
    allowedHosts,
    allowedOrigins: listed(env, 'RELAY_ALLOWED_ORIGINS', originOf),
    masterKey: text(env, 'RELAY_MASTER_KEY'),
    previousMasterKey: text(env, 'RELAY_MASTER_KEY_PREVIOUS'),
    privateNetworks: listed(env, 'RELAY_PRIVATE_NETWORKS', networkOf),
    internalSecret: internalSecretOf(env),
    traces: readTraceSettings(env),
    logLevel: choice(env, 'RELAY_LOG_LEVEL', logLevels) ?? 'info',
    publicUrl,
  };
}

function folderOf(env: Environment, cwd: string): string | undefined {
  const folder = text(env, 'RELAY_WORKSPACE');
  return folder === undefined ? undefined : resolve(cwd, folder);
}

/** A server that is known by a name of the network has a proxy in front, whose callers look local. */
function keylessChatOf(env: Environment, hosts: readonly string[]): Config['keylessChat'] {
  const setting = choice(env, 'RELAY_LOCAL_CHAT', ['on', 'off']);
  if (setting === 'off' || !hosts.every(isLoopback)) return 'off';
  return setting === 'on' ? 'all' : 'demo';
}

/** Off in production, where a variable of the machine must not pay for what callers do. */
function hasEnvironmentKeys(env: Environment): boolean {
  const setting = choice(env, 'RELAY_ENV_CREDENTIALS', ['on', 'off']);
  return setting === undefined ? isDevelopment(env) : setting === 'on';
}

/** Only this machine reaches the server, under no public name, and no other node shares its store. */
export function isDevelopment(env: Environment): boolean {
  return isForThisMachine(env) && text(env, 'RELAY_DATABASE_URL') === undefined;
}

export function isForThisMachine(env: Environment): boolean {
  const hosts = [hostOf(env), ...listed(env, 'RELAY_ALLOWED_HOSTS', hostNameOf)];
  return hosts.every(isLoopback) && publicUrlOf(env) === undefined;
}

function hostsOf(url: string | undefined): string[] {
  return url === undefined ? [] : [new URL(url).hostname];
}

/** Without a trailing slash. */
function publicUrlOf(env: Environment): string | undefined {
  const configured = text(env, 'RELAY_PUBLIC_URL');
  if (configured === undefined) return undefined;
  const url = URL.canParse(configured) ? new URL(configured) : undefined;
  const isPlain = url?.search === '' && url.hash === '' && url.username === '';
  if (url === undefined || !/^https?:$/.test(url.protocol) || !isPlain) {
    throw new ConfigError(
      `RELAY_PUBLIC_URL must be a URL such as https://relay.example, not "${configured}"`,
    );
  }
  return url.href.replace(/\/+$/, '');
}

export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (name === 'localhost' || name === '::1') return true;
  return isIP(name) === 4 && name.startsWith('127.');
}

const megabyte = 1024 * 1024;
/** V8 lets a heap of this size grow to several times what is in use before it collects garbage. */
const defaultRunMemoryMb = Math.max(
  16,
  Math.floor((0.1 * getHeapStatistics().heap_size_limit) / megabyte),
);
const dayMs = 24 * 60 * 60 * 1000;

function retentionOf(env: Environment): number | undefined {
  const days = integer(env, 'RELAY_RETENTION_DAYS', { fallback: 0, min: 1, max: 36_500 });
  return days === 0 ? undefined : days * dayMs;
}

const hostNameForm = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i;

function hostOf(env: Environment): string {
  const host = text(env, 'RELAY_HOST') ?? '127.0.0.1';
  if (isIP(host) !== 0 || hostNameForm.test(host)) return host;
  throw new ConfigError(
    `RELAY_HOST must be an address or a host name, not ${JSON.stringify(host)}`,
  );
}

/** It is sent in a header and must be hard to guess. The error never repeats it. */
function internalSecretOf(env: Environment): string | undefined {
  const secret = text(env, 'RELAY_INTERNAL_SECRET');
  if (secret === undefined || /^[\x21-\x7e]{16,512}$/.test(secret)) return secret;
  throw new ConfigError(
    'RELAY_INTERNAL_SECRET must have 16 to 512 printable ASCII characters, without spaces',
  );
}

/** The error never shows the URL: it may hold a password. */
function databaseUrlOf(env: Environment): string | undefined {
  const url = text(env, 'RELAY_DATABASE_URL');
  if (url === undefined) return undefined;
  const protocol = URL.canParse(url) ? new URL(url).protocol : undefined;
  if (protocol === 'postgres:' || protocol === 'postgresql:') return url;
  throw new ConfigError('RELAY_DATABASE_URL must be like postgres://user:password@host:5432/name');
}

/** A list separated by commas or spaces. `read` throws if a part is invalid. */
function listed<Item>(env: Environment, name: string, read: (part: string) => Item): Item[] {
  const parts = (text(env, name) ?? '').split(/[\s,]+/).filter((part) => part !== '');
  return parts.map((part) => {
    try {
      return read(part);
    } catch (error) {
      throw new ConfigError(`${name}: ${(error as Error).message}`);
    }
  });
}

function networkOf(part: string): PrivateNetworkSetting {
  const [, tenant, network = part] = /^([^=]+)=(.*)$/.exec(part) ?? [];
  parsePrivateNetwork(network);
  return tenant === undefined ? { network } : { tenant, network };
}

/** A name or an address without a port; it applies to all ports. */
function hostNameOf(part: string): string {
  const name = part.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (isIP(name) !== 0 || hostNameForm.test(name)) return name;
  throw new TypeError(`${JSON.stringify(part)} is not a host name`);
}

function originOf(part: string): string {
  const url = URL.canParse(part) ? new URL(part) : undefined;
  if (url !== undefined && url.origin !== 'null' && url.origin === part.replace(/\/$/, '')) {
    return url.origin;
  }
  throw new TypeError(`${JSON.stringify(part)} is not an origin such as https://example.com`);
}

function text(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === undefined || value === '' ? undefined : value;
}

function choice<Choice extends string>(
  env: Environment,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const value = text(env, name);
  if (value === undefined) return undefined;
  const chosen = choices.find((candidate) => candidate === value);
  if (chosen === undefined) {
    throw new ConfigError(`${name} must be ${choices.join(' or ')}, not ${JSON.stringify(value)}`);
  }
  return chosen;
}

function integer(
  env: Environment,
  name: string,
  range: { fallback: number; min: number; max: number },
): number {
  const value = text(env, name);
  if (value === undefined) return range.fallback;
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < range.min || number > range.max) {
    throw new ConfigError(
      `${name} must be a whole number from ${range.min} to ${range.max}, not ${JSON.stringify(value)}`,
    );
  }
  return number;
}

export interface TraceSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  /** Other resource attributes, such as the deployment environment. */
  readonly resource: Readonly<Record<string, string>>;
}

/** From OpenTelemetry's environment variables. Undefined: no endpoint, or traces are turned off. */
export function readTraceSettings(env: Environment): TraceSettings | undefined {
  if (text(env, 'OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return undefined;
  if (text(env, 'OTEL_TRACES_EXPORTER') === 'none') return undefined;
  const own = text(env, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
  const shared = text(env, 'OTEL_EXPORTER_OTLP_ENDPOINT');
  const url =
    own === undefined
      ? shared && endpoint('OTEL_EXPORTER_OTLP_ENDPOINT', shared, 'v1/traces')
      : endpoint('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', own);
  if (url === undefined) return undefined;
  requireHttpExporter(env);
  const resource = pairs(env, 'OTEL_RESOURCE_ATTRIBUTES');
  const { 'service.name': named, ...others } = resource;
  return {
    url,
    headers: {
      ...pairs(env, 'OTEL_EXPORTER_OTLP_HEADERS'),
      ...pairs(env, 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'),
    },
    serviceName: text(env, 'OTEL_SERVICE_NAME') ?? named ?? 'relay',
    resource: others,
  };
}

/** The endpoint for all signals gets the path of traces; a traces endpoint is used as it is. */
function endpoint(name: string, value: string, path?: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError(`${name} must be a URL such as http://localhost:4318`);
  }
  if (path !== undefined) url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`;
  return url.href;
}

const protocols = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'];

/** Every collector that accepts HTTP accepts JSON; gRPC has another port. */
function requireHttpExporter(env: Environment): void {
  for (const name of protocols) {
    if (env[name]?.trim() === 'grpc') {
      throw new ConfigError(`${name}: Relay exports traces over HTTP (port 4318), not gRPC`);
    }
  }
}

/** `name=value,name=value`, percent-encoded. Errors do not repeat the value: it may be a secret. */
function pairs(env: Environment, variable: string): Record<string, string> {
  const found: [string, string][] = [];
  for (const part of (env[variable] ?? '').split(',')) {
    if (part.trim() === '') continue;
    const [, name, value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(part) ?? [];
    if (name === undefined || value === undefined) {
      throw new ConfigError(`${variable} must be a list such as name=value,name=value`);
    }
    found.push([decoded(variable, name), decoded(variable, value)]);
  }
  return Object.fromEntries(found);
}

function decoded(variable: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ConfigError(`${variable} contains an invalid percent-encoding`);
  }
}
