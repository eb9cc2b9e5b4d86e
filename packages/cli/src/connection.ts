/**
 * Which server is meant, and with which key. A key is never an argument, where other users of the
 * machine and the shell's history would see it: it comes from the environment, from a profile, or
 * from the data folder of a server on this very machine.
 */
import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { RelayClient } from '@relay/sdk';
import { CliError, usageError } from './failures.ts';
import { setting, type World } from './world.ts';

export interface Target {
  readonly url?: string | undefined;
  readonly profile?: string | undefined;
}

export interface Connection {
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Where the key comes from, for people. */
  readonly keyFrom: string | undefined;
}

interface Profile {
  readonly url?: string;
  readonly apiKey?: string;
  readonly keyFile?: string;
}

export function connectionOf(world: World, target: Target): Connection {
  const profile = profileFor(world, target);
  const url = urlOf(target.url ?? profile?.url ?? setting(world, 'RELAY_URL') ?? localUrl(world));
  return { url, ...keyFor(world, url, profile) };
}

/** A profile's key belongs to the profile's server, and is not sent to another. */
function profileFor(world: World, { url, profile: named }: Target): Profile | undefined {
  if (named === undefined && url !== undefined) return undefined;
  const name = named ?? setting(world, 'RELAY_PROFILE');
  if (name === undefined) return undefined;
  if (url !== undefined) throw usageError('Either --profile or --url names the server, not both');
  return readProfile(world, name);
}

export async function clientFor({ url, apiKey }: Connection): Promise<RelayClient> {
  const { createClient } = await import('@relay/sdk');
  // Somebody waits at a terminal: better told soon.
  return createClient({ baseUrl: url, apiKey, maxRetries: 1 });
}

function localUrl(world: World): string {
  return `http://127.0.0.1:${setting(world, 'RELAY_PORT') ?? '4000'}`;
}

function urlOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw usageError(`"${text}" is no URL of a server`, 'it looks like http://127.0.0.1:4000');
  }
  // It would show in lists of processes and in logs.
  if (url.password !== '' || url.username !== '') {
    throw usageError('The URL of a server holds no user and no password');
  }
  return text.replace(/\/+$/, '');
}

export function isLocal(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.[\d.]+$/.test(hostname);
}

function dataDirOf(world: World): string {
  return resolve(world.cwd, setting(world, 'RELAY_DATA_DIR') ?? '.relay');
}

type Key = Pick<Connection, 'apiKey' | 'keyFrom'>;

function keyFor(world: World, url: string, profile: Profile | undefined): Key {
  if (profile?.apiKey !== undefined) return { apiKey: profile.apiKey, keyFrom: 'the profile' };
  if (profile?.keyFile !== undefined) {
    const path = resolve(world.cwd, profile.keyFile.replace(/^~(?=\/)/, homedir()));
    return { apiKey: readPrivately(path), keyFrom: path };
  }
  const given = setting(world, 'RELAY_API_KEY');
  if (given !== undefined) return { apiKey: given, keyFrom: 'RELAY_API_KEY' };
  // The key of this machine's own server goes to nobody else.
  if (!isLocal(url)) return { apiKey: undefined, keyFrom: undefined };
  const path = join(dataDirOf(world), 'first-key');
  try {
    return { apiKey: readFileSync(path, 'utf8').trim(), keyFrom: path };
  } catch {
    return { apiKey: undefined, keyFrom: undefined };
  }
}

function profilesPath(world: World): string {
  const base = setting(world, 'XDG_CONFIG_HOME') ?? join(homedir(), '.config');
  return setting(world, 'RELAY_PROFILES') ?? join(base, 'relay', 'profiles.json');
}

function readProfile(world: World, name: string): Profile {
  const path = profilesPath(world);
  const profiles = parseProfiles(path, readPrivately(path));
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (profile !== undefined) return profile;
  const names = Object.keys(profiles).join(', ');
  throw usageError(`There is no profile "${name}" in ${path}`, `it has: ${names || 'none'}`);
}

function parseProfiles(path: string, text: string): Readonly<Record<string, Profile>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, Profile>>;
  } catch {
    throw usageError(`${path} is not JSON`, 'it looks like {"prod": {"url": "…", "keyFile": "…"}}');
  }
}

/** Keys that others of this machine could read are not secret. */
function readPrivately(path: string): string {
  let mode: number;
  try {
    mode = statSync(path).mode;
  } catch {
    throw usageError(`There is no file ${path}`);
  }
  if ((mode & 0o077) !== 0) {
    throw new CliError('file_not_private', `Others can read ${path}`, {
      hint: `chmod 600 ${path}`,
    });
  }
  return readFileSync(path, 'utf8').trim();
}
