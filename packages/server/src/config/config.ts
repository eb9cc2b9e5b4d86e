/** The server's configuration, read once from the environment. A mistake stops the start. */
import { isIP } from 'node:net';
import { isAbsolute, resolve } from 'node:path';
import { parseNetwork } from '@relay/models';
import { ConfigError } from './config-error.ts';
import { type LogLevel, logLevels } from '../observability/log.ts';
import { readTraceSettings, type TraceSettings } from '../observability/tracing/settings.ts';

export interface Config {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** Where several nodes keep what they share. Left out: an embedded store in the data folder. */
  readonly databaseUrl: string | undefined;
  /** The folder of the tenant `default`. */
  readonly workspace: string | undefined;
  /** What the commands of `bash` run inside. */
  readonly sandbox: 'bwrap' | undefined;
  readonly localChat: 'on' | 'off' | undefined;
  readonly defaultModel: string | undefined;
  /** Whose vectors tell what memories mean; undefined: what `relay.config.ts` says, or nobody's. */
  readonly embeddings: string | undefined;
  readonly leaseTtlMs: number;
  readonly approvalTtlMs: number;
  readonly toolResultTimeoutMs: number;
  readonly maxActiveRuns: number;
  readonly disconnect: 'cancel' | 'detach';
  /** How long what was said is kept after a conversation's last run. Undefined: for ever. */
  readonly retentionMs: number | undefined;
  /** How many bytes long outputs of commands may have, all together. */
  readonly outputBytes: number;
  /** Its names. Empty: whatever it is called, or this machine's names if it listens there alone. */
  readonly allowedHosts: readonly string[];
  /** Pages of these origins may call, besides the server's own. */
  readonly allowedOrigins: readonly string[];
  readonly masterKey: string | undefined;
  readonly previousMasterKey: string | undefined;
  /** CIDRs that a provider's URL may point into. */
  readonly privateNetworks: readonly string[];
  /** What Relay's own machinery shows instead of a key; without one it is not let in anywhere. */
  readonly internalSecret: string | undefined;
  /** Where traces of runs go; undefined: nowhere. */
  readonly traces: TraceSettings | undefined;
  readonly logLevel: LogLevel;
  /** How people reach this server from outside; undefined: no links to it are sent. */
  readonly publicUrl: string | undefined;
}

export { ConfigError };

type Environment = Readonly<Record<string, string | undefined>>;

export function readConfig(env: Environment, cwd: string): Config {
  const dataDir = text(env, 'RELAY_DATA_DIR') ?? '.relay';
  return {
    host: hostOf(env),
    port: integer(env, 'RELAY_PORT', { fallback: 4000, min: 0, max: 65_535 }),
    dataDir: isAbsolute(dataDir) ? dataDir : resolve(cwd, dataDir),
    databaseUrl: databaseUrlOf(env),
    workspace: folderOf(env, cwd),
    sandbox: choice(env, 'RELAY_SANDBOX', ['bwrap']),
    localChat: choice(env, 'RELAY_LOCAL_CHAT', ['on', 'off']),
    defaultModel: text(env, 'RELAY_DEFAULT_MODEL'),
    embeddings: text(env, 'RELAY_EMBEDDINGS'),
    leaseTtlMs: integer(env, 'RELAY_LEASE_TTL_MS', { fallback: 15_000, min: 100, max: 3_600_000 }),
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
    disconnect: choice(env, 'RELAY_DISCONNECT', ['cancel', 'detach']) ?? 'cancel',
    retentionMs: retentionOf(env),
    outputBytes:
      megabyte * integer(env, 'RELAY_OUTPUT_MB', { fallback: 10_240, min: 1, max: 100_000_000 }),
    allowedHosts: listed(env, 'RELAY_ALLOWED_HOSTS', hostNameOf),
    allowedOrigins: listed(env, 'RELAY_ALLOWED_ORIGINS', originOf),
    masterKey: text(env, 'RELAY_MASTER_KEY'),
    previousMasterKey: text(env, 'RELAY_MASTER_KEY_PREVIOUS'),
    privateNetworks: listed(env, 'RELAY_PRIVATE_NETWORKS', networkOf),
    internalSecret: internalSecretOf(env),
    traces: readTraceSettings(env),
    logLevel: choice(env, 'RELAY_LOG_LEVEL', logLevels) ?? 'info',
    publicUrl: publicUrlOf(env),
  };
}

function folderOf(env: Environment, cwd: string): string | undefined {
  const folder = text(env, 'RELAY_WORKSPACE');
  return folder === undefined ? undefined : resolve(cwd, folder);
}

/** Without a slash at its end. */
function publicUrlOf(env: Environment): string | undefined {
  const given = text(env, 'RELAY_PUBLIC_URL');
  if (given === undefined) return undefined;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isPlain = url?.search === '' && url.hash === '' && url.username === '';
  if (url === undefined || !/^https?:$/.test(url.protocol) || !isPlain) {
    throw new ConfigError(
      `RELAY_PUBLIC_URL must be a URL such as https://relay.example, not "${given}"`,
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

/** It travels in a header, and must be too long to be guessed. A complaint never repeats it. */
function internalSecretOf(env: Environment): string | undefined {
  const secret = text(env, 'RELAY_INTERNAL_SECRET');
  if (secret === undefined || /^[\x21-\x7e]{16,512}$/.test(secret)) return secret;
  throw new ConfigError(
    'RELAY_INTERNAL_SECRET must have 16 to 512 letters, digits or signs, without spaces',
  );
}

/** It may hold a password, and is never shown. */
function databaseUrlOf(env: Environment): string | undefined {
  const url = text(env, 'RELAY_DATABASE_URL');
  if (url === undefined) return undefined;
  const protocol = URL.canParse(url) ? new URL(url).protocol : undefined;
  if (protocol === 'postgres:' || protocol === 'postgresql:') return url;
  throw new ConfigError('RELAY_DATABASE_URL must be like postgres://user:password@host:5432/name');
}

/** Separated by commas or spaces; each part is read by `read`, which throws if it is none. */
function listed(env: Environment, name: string, read: (part: string) => string): string[] {
  const parts = (text(env, name) ?? '').split(/[\s,]+/).filter((part) => part !== '');
  return parts.map((part) => {
    try {
      return read(part);
    } catch (error) {
      throw new ConfigError(`${name}: ${(error as Error).message}`);
    }
  });
}

function networkOf(part: string): string {
  parseNetwork(part);
  return part;
}

/** A name or an address, without a port: it holds for all of them. */
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
