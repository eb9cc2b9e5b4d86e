/**
 * A server on this machine: its URL, its data folder, and the key that is in it.
 *
 * Any process can listen on a port of this machine. So the key is sent only to the URL of a registered server
 * that uses the data folder.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { configFileNames } from '@relay/server/config-file-names';
import { type RegisteredServer, runningServers } from '@relay/server/registration';
import { type CliEnvironment, relay, setting } from './environment.ts';
import { CliError, exitCodes } from './errors.ts';
import { readPrivate } from './profiles.ts';

const defaultPort = '4000';

/**
 * A data folder, `RELAY_PORT` and `RELAY_DATA_DIR` select a server. Without them it is the one of the current
 * folder. If that has none of its own, it is the one that runs.
 */
export function localUrl(environment: CliEnvironment, dataDir?: string): string {
  const port = setting(environment, 'RELAY_PORT');
  const named =
    dataDir === undefined ? namedDataDir(environment) : resolve(environment.cwd, dataDir);
  const running = runningServers(environment.env);
  const usualUrl = `http://127.0.0.1:${port ?? envFilePort(environment) ?? defaultPort}`;
  if (port !== undefined || named !== undefined) {
    const isNamed = ({ url, dataDir }: RegisteredServer) =>
      (port === undefined || portOf(url) === port) && (named === undefined || dataDir === named);
    return running.find(isNamed)?.url ?? usualUrl;
  }
  const here = serverOfFolder(environment);
  if (here !== undefined) return here.url;
  // What was meant for it must not happen elsewhere while it restarts.
  if (running.length > 0 && isProject(environment)) throw noServerHere(environment, running);
  if (running.length < 2) return running[0]?.url ?? usualUrl;
  const usual = running.find(({ url }) => portOf(url) === defaultPort);
  if (usual === undefined) throw severalServers(running);
  return usual.url;
}

/** It was started in the current folder, or its data is there. */
function serverOfFolder(environment: CliEnvironment): RegisteredServer | undefined {
  const here = runningServers(environment.env).filter(
    ({ cwd, dataDir }) => cwd === environment.cwd || dirname(dataDir) === environment.cwd,
  );
  const folder = folderHere(environment);
  const server = here.length === 1 ? here[0] : here.find(({ dataDir }) => dataDir === folder);
  if (server === undefined && here.length > 1) throw severalServers(here);
  return server;
}

/** The current folder has a server of its own, even if that does not run. */
function isProject(environment: CliEnvironment): boolean {
  return (
    isDataFolder(folderHere(environment)) ||
    envFilePort(environment) !== undefined ||
    configFileNames.some((name) => existsSync(join(environment.cwd, name)))
  );
}

/** Where a server that is started in this folder would listen: on this machine, like the default port. */
function envFilePort({ cwd }: CliEnvironment): string | undefined {
  try {
    const port = parseEnv(readFileSync(join(cwd, '.env'), 'utf8'))['RELAY_PORT']?.trim() ?? '';
    return /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535 ? port : undefined;
  } catch {
    return undefined;
  }
}

const unclearCodes = { several: 'several_servers', none: 'no_server_here' };

function severalServers(servers: readonly RegisteredServer[]): CliError {
  const hint = `choose one with --url: ${listOf(servers)}`;
  const message = `${servers.length} servers run on this machine`;
  return new CliError(unclearCodes.several, message, { exit: exitCodes.usage, hint });
}

function noServerHere({ cwd }: CliEnvironment, others: readonly RegisteredServer[]): CliError {
  const message = `The server of this folder, ${cwd}, is not running`;
  const hint = `start it with "${relay} dev", or choose another one with --url: ${listOf(others)}`;
  return new CliError(unclearCodes.none, message, { exit: exitCodes.unreachable, hint });
}

function listOf(servers: readonly RegisteredServer[]): string {
  return servers.map(({ url, dataDir }) => `${url} (${dataDir})`).join(', ');
}

/** It is not clear which of the servers on this machine is meant, or none of them is. */
export function isServerUnclear(error: unknown): boolean {
  return error instanceof CliError && Object.values(unclearCodes).includes(error.code);
}

function portOf(url: string): string {
  return new URL(url).port || '80';
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
  const { origin } = new URL(url);
  return runningServers(environment.env).find((server) => server.url === origin);
}

/** The same, unless `RELAY_DATA_DIR` names another data folder than the server uses. */
export function serverHere(environment: CliEnvironment, url: string): RegisteredServer | undefined {
  const server = registeredAt(environment, url);
  const named = namedDataDir(environment);
  return named === undefined || named === server?.dataDir ? server : undefined;
}

export function isLocal(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.[\d.]+$/.test(hostname);
}

/** `localhost` has two addresses. If a registered server uses one of them, that one is meant. */
export function withAddress(environment: CliEnvironment, url: string): string {
  const { protocol, hostname, pathname } = new URL(url);
  if (protocol !== 'http:' || hostname !== 'localhost' || pathname !== '/') return url;
  const isMeant = (server: RegisteredServer) =>
    isLocal(server.url) && portOf(server.url) === portOf(url);
  return runningServers(environment.env).find(isMeant)?.url ?? url;
}

/** The CLI's own key, and the one that a first start without a terminal wrote. */
export const keyFiles = { own: 'cli-key', first: 'first-key' } as const;

export interface LocalKey {
  readonly apiKey: string;
  readonly path: string;
  readonly dataDir: string;
  readonly isFirst: boolean;
}

/** Undefined for every other server: the key is never sent there. */
export function localKey(environment: CliEnvironment, url: string): LocalKey | undefined {
  const dataDir = serverHere(environment, url)?.dataDir;
  if (dataDir === undefined) return undefined;
  for (const name of [keyFiles.own, keyFiles.first]) {
    const path = join(dataDir, name);
    const apiKey = readPrivate(path);
    if (apiKey !== undefined) return { apiKey, path, dataDir, isFirst: name === keyFiles.first };
  }
  return undefined;
}

/**
 * The environment of a command on a data folder: that of `--data-dir` or `RELAY_DATA_DIR`; of the server that
 * `--url`, `RELAY_URL` or `RELAY_PORT` names; of the server that was started in this folder; `.relay` in this
 * folder; or of the server that runs elsewhere. The settings are those of the server: it reads `.env` in the
 * folder that it was started in.
 */
export async function installationOf(
  environment: CliEnvironment,
  { url }: { readonly url?: string | undefined },
  dataDir: string | undefined,
): Promise<CliEnvironment> {
  const { settingsOf } = await import('@relay/server/operator');
  const { env, cwd } = environment;
  const here = settingsOf({ env, cwd });
  const given = dataDir ?? setting({ env: here }, 'RELAY_DATA_DIR');
  const named = given === undefined ? undefined : resolve(cwd, given);
  const server =
    named === undefined
      ? serverFor(environment, url)
      : runningServers(env).find((running) => running.dataDir === named);
  const settings = server === undefined ? here : settingsOf({ env, cwd: server.cwd });
  const found = named ?? server?.dataDir ?? folderHere(environment);
  return { ...environment, env: { ...settings, RELAY_DATA_DIR: found } };
}

/** Unless a setting names a server: not one that runs elsewhere, if there is a data folder here. */
function serverFor(environment: CliEnvironment, named?: string): RegisteredServer | undefined {
  const url = named ?? setting(environment, 'RELAY_URL');
  if (url !== undefined) return registeredAt(environment, url);
  if (setting(environment, 'RELAY_PORT') === undefined) {
    const here = serverOfFolder(environment);
    if (here !== undefined || isDataFolder(folderHere(environment))) return here;
  }
  return registeredAt(environment, localUrl(environment));
}

function folderHere({ cwd }: CliEnvironment): string {
  return resolve(cwd, '.relay');
}

function isDataFolder(folder: string): boolean {
  try {
    return readdirSync(folder).length > 0;
  } catch {
    return false;
  }
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
