/** A server on this machine: its URL, its data folder, and the key that is in it. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type RegisteredServer, runningServers } from '@relay/server/registration';
import { type CliEnvironment, setting } from './environment.ts';
import { CliError, usageError } from './errors.ts';

const defaultPort = '4000';

/** `RELAY_PORT` and `RELAY_DATA_DIR` select a server. Without them it is the one that runs. */
export function localUrl(environment: CliEnvironment): string {
  const port = setting(environment, 'RELAY_PORT');
  const defaultUrl = `http://127.0.0.1:${port ?? defaultPort}`;
  if (port !== undefined) return defaultUrl;
  const servers = runningServers(environment.env);
  const named = namedDataDir(environment);
  if (named !== undefined) {
    return servers.find(({ dataDir }) => dataDir === named)?.url ?? defaultUrl;
  }
  if (servers.length < 2) return servers[0]?.url ?? defaultUrl;
  const here = servers.filter(({ dataDir }) => dirname(dataDir) === environment.cwd);
  if (here.length === 1 && here[0] !== undefined) return here[0].url;
  const usual = servers.find(({ url }) => isSameServer(url, defaultUrl));
  if (usual !== undefined) return usual.url;
  const list = servers.map(({ url, dataDir }) => `${url} (${dataDir})`).join(', ');
  throw usageError(
    `${servers.length} servers run on this machine`,
    `choose one with --url: ${list}`,
  );
}

function namedDataDir(environment: CliEnvironment): string | undefined {
  const named = setting(environment, 'RELAY_DATA_DIR');
  return named === undefined ? undefined : resolve(environment.cwd, named);
}

/** The registration of the server at a URL, if it runs on this machine. */
export function registeredAt(
  environment: CliEnvironment,
  url: string,
): RegisteredServer | undefined {
  return runningServers(environment.env).find((server) => isSameServer(server.url, url));
}

export function isLocal(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.[\d.]+$/.test(hostname);
}

function isSameServer(a: string, b: string): boolean {
  if (a === b) return true;
  return isLocal(a) && isLocal(b) && new URL(a).port === new URL(b).port;
}

export function dataDirOf(environment: CliEnvironment, url: string): string {
  return (
    namedDataDir(environment) ??
    registeredAt(environment, url)?.dataDir ??
    resolve(environment.cwd, '.relay')
  );
}

/** The CLI's own key, and the one that a first start without a terminal wrote. */
export const keyFiles = { own: 'cli-key', first: 'first-key' } as const;

export interface LocalKey {
  readonly apiKey: string;
  readonly path: string;
  readonly dataDir: string;
  readonly isFirst: boolean;
}

/** Undefined for a server on another machine: the key is never sent there. */
export function localKey(environment: CliEnvironment, url: string): LocalKey | undefined {
  if (!isLocal(url) && registeredAt(environment, url) === undefined) return undefined;
  const dataDir = dataDirOf(environment, url);
  for (const name of [keyFiles.own, keyFiles.first]) {
    const path = join(dataDir, name);
    try {
      const apiKey = readFileSync(path, 'utf8').trim();
      return { apiKey, path, dataDir, isFirst: name === keyFiles.first };
    } catch {
      // There is none, or it is another user's.
    }
  }
  return undefined;
}

/**
 * The environment of a command on a data folder: that of `--data-dir`, of `RELAY_DATA_DIR`, of the server that
 * runs, or `.relay`.
 */
export function installationOf(
  environment: CliEnvironment,
  { url }: { readonly url?: string | undefined },
  dataDir: string | undefined,
): CliEnvironment {
  const { env, cwd } = environment;
  const found = resolve(cwd, dataDir ?? dataDirOf(environment, url ?? localUrl(environment)));
  return { ...environment, env: { ...env, RELAY_DATA_DIR: found } };
}

/** A key in a new SQLite store would not be one of a running server that uses PostgreSQL. */
export function existingStore(installation: CliEnvironment): CliEnvironment {
  const dataDir = setting(installation, 'RELAY_DATA_DIR') ?? '';
  const server = runningServers(installation.env).find((running) => running.dataDir === dataDir);
  const isPostgres = server !== undefined && !existsSync(join(dataDir, 'relay.db'));
  if (isPostgres && setting(installation, 'RELAY_DATABASE_URL') === undefined) {
    throw new CliError('database_unknown', `The server at ${server.url} uses PostgreSQL`, {
      hint: 'set RELAY_DATABASE_URL and RELAY_MASTER_KEY as for the server',
    });
  }
  return installation;
}
