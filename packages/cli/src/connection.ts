/**
 * The server to call and the key to call it with. A key is never an argument, because process lists
 * and the shell history would expose it: it comes from the environment, a profile, or the data
 * folder of a server on this machine.
 */
import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { RelayClient } from '@relay/sdk';
import { type CliEnvironment, setting } from './environment.ts';
import { CliError, usageError } from './errors.ts';

export interface Target {
  readonly url?: string | undefined;
  readonly profile?: string | undefined;
}

export interface Connection {
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Where the key comes from, for messages. */
  readonly keyFrom: string | undefined;
}

interface Profile {
  readonly url?: string;
  readonly apiKey?: string;
  readonly keyFile?: string;
}

export function connectionOf(environment: CliEnvironment, target: Target): Connection {
  const profile = profileFor(environment, target);
  const url = urlOf(
    target.url ?? profile?.url ?? setting(environment, 'RELAY_URL') ?? localUrl(environment),
  );
  return { url, ...keyFor(environment, url, profile) };
}

/** The key of a profile is sent to the server of that profile only. */
function profileFor(
  environment: CliEnvironment,
  { url, profile: named }: Target,
): Profile | undefined {
  if (named === undefined && url !== undefined) return undefined;
  const name = named ?? setting(environment, 'RELAY_PROFILE');
  if (name === undefined) return undefined;
  if (url !== undefined) throw usageError('Use either --profile or --url, not both');
  return readProfile(environment, name);
}

export async function clientFor({ url, apiKey }: Connection): Promise<RelayClient> {
  const { createClient } = await import('@relay/sdk');
  // A person waits at the terminal: report a failure soon.
  return createClient({ baseUrl: url, apiKey, maxRetries: 1 });
}

function localUrl(environment: CliEnvironment): string {
  return `http://127.0.0.1:${setting(environment, 'RELAY_PORT') ?? '4000'}`;
}

function urlOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw usageError(`Invalid server URL "${text}"`, 'for example http://127.0.0.1:4000');
  }
  // Process lists and logs would expose it.
  if (url.password !== '' || url.username !== '') {
    throw usageError('The server URL must not contain a user name or password');
  }
  return text.replace(/\/+$/, '');
}

export function isLocal(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.[\d.]+$/.test(hostname);
}

function dataDirOf(environment: CliEnvironment): string {
  return resolve(environment.cwd, setting(environment, 'RELAY_DATA_DIR') ?? '.relay');
}

type Key = Pick<Connection, 'apiKey' | 'keyFrom'>;

function keyFor(environment: CliEnvironment, url: string, profile: Profile | undefined): Key {
  if (profile?.apiKey !== undefined) return { apiKey: profile.apiKey, keyFrom: 'the profile' };
  if (profile?.keyFile !== undefined) {
    const path = resolve(environment.cwd, profile.keyFile.replace(/^~(?=\/)/, homedir()));
    return { apiKey: readPrivate(path), keyFrom: path };
  }
  const apiKey = setting(environment, 'RELAY_API_KEY');
  if (apiKey !== undefined) return { apiKey, keyFrom: 'RELAY_API_KEY' };
  // The key of the local server is never sent to another machine.
  if (!isLocal(url)) return { apiKey: undefined, keyFrom: undefined };
  const path = join(dataDirOf(environment), 'first-key');
  try {
    return { apiKey: readFileSync(path, 'utf8').trim(), keyFrom: path };
  } catch {
    return { apiKey: undefined, keyFrom: undefined };
  }
}

function profilesPath(environment: CliEnvironment): string {
  const base = setting(environment, 'XDG_CONFIG_HOME') ?? join(homedir(), '.config');
  return setting(environment, 'RELAY_PROFILES') ?? join(base, 'relay', 'profiles.json');
}

function readProfile(environment: CliEnvironment, name: string): Profile {
  const path = profilesPath(environment);
  const profiles = parseProfiles(path, readPrivate(path));
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (profile !== undefined) return profile;
  const names = Object.keys(profiles).join(', ');
  throw usageError(`No profile "${name}" in ${path}`, `profiles there: ${names || 'none'}`);
}

function parseProfiles(path: string, text: string): Readonly<Record<string, Profile>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, Profile>>;
  } catch {
    throw usageError(`${path} is not JSON`, 'for example {"prod": {"url": "…", "keyFile": "…"}}');
  }
}

/** Refuses a file that other users of this machine can read. */
function readPrivate(path: string): string {
  let mode: number;
  try {
    mode = statSync(path).mode;
  } catch {
    throw usageError(`No such file: ${path}`);
  }
  if ((mode & 0o077) !== 0) {
    throw new CliError('file_not_private', `Other users can read ${path}`, {
      hint: `chmod 600 ${path}`,
    });
  }
  return readFileSync(path, 'utf8').trim();
}
