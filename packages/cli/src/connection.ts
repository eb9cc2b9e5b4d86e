/**
 * The server to call and the key to call it with. A key is never an argument, because process lists
 * and the shell history would expose it: it comes from the environment, a profile, or the data
 * folder of a server on this machine.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RelayClient } from '@relay/sdk';
import { type CliEnvironment, setting, relay } from './environment.ts';
import { usageError } from './errors.ts';
import { keyFiles, localKey, localUrl, withAddress } from './local-server.ts';
import {
  defaultProfile,
  fromProfile,
  keyOf,
  type Profile,
  profileNamed,
  readProfiles,
} from './profiles.ts';

const keyVariable = 'RELAY_API_KEY';

/** For what works only with a key. */
export const needsKey = `sign in with "${relay} login", or set ${keyVariable}`;

export interface Target {
  readonly url?: string | undefined;
  readonly profile?: string | undefined;
  /** Selects the server that uses it. */
  readonly dataDir?: string | undefined;
}

export interface Connection {
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Where the key comes from, for messages. */
  readonly keyFrom: string | undefined;
  /** The name of the profile that selected the server. */
  readonly profile?: string | undefined;
  /** The data folder whose first key this is. */
  readonly firstKeyIn?: string | undefined;
}

export function connectionOf(environment: CliEnvironment, target: Target): Connection {
  const selected = profileFor(environment, target);
  const [name, profile] = selected ?? [];
  const given = target.url ?? profile?.url ?? environmentUrl(environment, selected);
  const local = () => localUrl(environment, target.dataDir);
  const url = withAddress(environment, checkedUrl(given ?? local()));
  return { url, ...keyFor(environment, url, profile), profile: name };
}

/** A profile without a URL is for the server on this machine. */
function environmentUrl(environment: CliEnvironment, selected: unknown): string | undefined {
  return selected === undefined ? setting(environment, 'RELAY_URL') : undefined;
}

/** The key of a profile is sent to the server of that profile only. */
function profileFor(
  environment: CliEnvironment,
  { url, profile: named }: Target,
): [string, Profile] | undefined {
  if (named === undefined && url !== undefined) return undefined;
  const name = named ?? setting(environment, 'RELAY_PROFILE');
  if (name === undefined) return implicitProfile(environment);
  if (url !== undefined) throw usageError('Use either --profile or --url, not both');
  return [name, profileNamed(environment, name)];
}

/** Variables that name a server, or have the key of one, come before the default profile. */
function implicitProfile(environment: CliEnvironment): [string, Profile] | undefined {
  const names = ['RELAY_URL', 'RELAY_API_KEY', 'RELAY_PORT', 'RELAY_DATA_DIR'];
  if (names.some((name) => setting(environment, name) !== undefined)) return undefined;
  return defaultProfile(readProfiles(environment));
}

/** What to say if the server rejects the key: where it comes from, and how to replace it there. */
export function rejectedKey({ url, apiKey, keyFrom, profile }: Connection) {
  if (apiKey === undefined) return undefined;
  if (keyFrom === keyVariable) {
    return {
      key: `the key from $${keyVariable}`,
      hint: `set ${keyVariable} to a valid key, or unset it to use the key of "${relay} login"`,
    };
  }
  const why = 'it is mistyped, expired, revoked, or for another server';
  if (keyFrom === fromProfile) {
    return {
      key: `the key of the profile ${profile}`,
      hint: `${why}; sign in again with "${relay} login ${url} --name ${profile}"`,
    };
  }
  const replace =
    profile === undefined ? `"${relay} login" makes another` : 'replace it in the file';
  return { key: `the key from ${keyFrom}`, hint: `${why}; ${replace}` };
}

export async function clientFor(connection: Connection): Promise<RelayClient> {
  const { createClient } = await import('@relay/sdk');
  const { url } = connection;
  const apiKey = await ownKey(connection, createClient);
  // A person waits at the terminal: report a failure soon.
  return createClient({ baseUrl: url, apiKey, maxRetries: 1, unreachableTimeoutMs: 0 });
}

/**
 * The file of the first key is deleted when its holder signs in to the console. So that the CLI works also
 * after that, its first command with that key makes a key of its own, for the same person.
 */
async function ownKey(
  { url, apiKey, firstKeyIn }: Connection,
  createClient: typeof import('@relay/sdk').createClient,
): Promise<string | undefined> {
  if (firstKeyIn === undefined) return apiKey;
  const client = createClient({ baseUrl: url, apiKey, maxRetries: 0 });
  try {
    const { id, owner = id, scopes } = await client.keys.current();
    const made = await client.keys.create({ name: 'cli', owner, scopes });
    if (!keyForm.test(made.apiKey)) return apiKey;
    try {
      writeCliKey(firstKeyIn, made.apiKey);
      return made.apiKey;
    } catch {
      // The folder is read-only, or another command was first.
      await client.keys.revoke(made.id);
    }
  } catch {
    // The command itself reports what is wrong.
  }
  return apiKey;
}

/** What another program on the port responds is not stored. */
const keyForm = /^relay_live_[0-9a-f]{72}$/;

/** Fails if there is one. */
export function writeCliKey(dataDir: string, apiKey: string): void {
  writeFileSync(join(dataDir, keyFiles.own), `${apiKey}\n`, { mode: 0o600, flag: 'wx' });
}

export function checkedUrl(text: string): string {
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

type Key = Pick<Connection, 'apiKey' | 'keyFrom' | 'firstKeyIn'>;

function keyFor(environment: CliEnvironment, url: string, profile: Profile | undefined): Key {
  const stored = profile === undefined ? undefined : keyOf(environment, profile);
  if (stored !== undefined) return stored;
  const apiKey = setting(environment, keyVariable);
  if (apiKey !== undefined) return { apiKey, keyFrom: keyVariable };
  const local = localKey(environment, url);
  if (local === undefined) return { apiKey: undefined, keyFrom: undefined };
  return {
    apiKey: local.apiKey,
    keyFrom: local.path,
    firstKeyIn: local.isFirst ? local.dataDir : undefined,
  };
}
