/** Servers and their keys, by name, in a file that only its owner can read. */
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { type CliEnvironment, setting } from './environment.ts';
import { CliError, usageError } from './errors.ts';

export interface Profile {
  readonly url?: string;
  readonly apiKey?: string;
  readonly keyFile?: string;
  /** Used if nothing else selects a server. */
  readonly default?: boolean;
}

export type Profiles = Readonly<Record<string, Profile>>;

/** The server on this machine, unless a profile has this name. */
export const localName = 'local';

export function profilesPath(environment: CliEnvironment): string {
  const base = setting(environment, 'XDG_CONFIG_HOME') ?? join(homedir(), '.config');
  return setting(environment, 'RELAY_PROFILES') ?? join(base, 'relay', 'profiles.json');
}

/** Empty if there is no file. */
export function readProfiles(environment: CliEnvironment): Profiles {
  const path = profilesPath(environment);
  const text = readPrivate(path);
  if (text === undefined) return {};
  let profiles: unknown;
  try {
    profiles = JSON.parse(text);
  } catch {
    // The next check reports it.
  }
  if (typeof profiles === 'object' && profiles !== null && !Array.isArray(profiles)) {
    return profiles as Profiles;
  }
  throw usageError(
    `${path} is not a JSON object`,
    'for example {"prod": {"url": "…", "keyFile": "…"}}',
  );
}

export function profileNamed(environment: CliEnvironment, name: string): Profile {
  const profiles = readProfiles(environment);
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (profile !== undefined) return profile;
  if (name === localName) return {};
  throw noProfile(environment, name, profiles);
}

function noProfile(environment: CliEnvironment, name: string, profiles: Profiles): CliError {
  const names = Object.keys(profiles).join(', ');
  return usageError(
    `No profile "${name}" in ${profilesPath(environment)}`,
    `profiles there: ${names || 'none'}`,
  );
}

export function defaultProfile(profiles: Profiles): [string, Profile] | undefined {
  return Object.entries(profiles).find(([, profile]) => profile.default === true);
}

/** Replaces the file as a whole: a reader never sees half of it. */
export function writeProfiles(environment: CliEnvironment, profiles: Profiles): void {
  const path = profilesPath(environment);
  const draft = `${path}.${process.pid}`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(draft, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, path);
}

/** The only profile, or the first one, becomes the default. */
export function storeProfile(environment: CliEnvironment, name: string, profile: Profile): void {
  const profiles = readProfiles(environment);
  const previous = defaultProfile(profiles);
  const isDefault = previous === undefined || previous[0] === name;
  writeProfiles(environment, {
    ...profiles,
    [name]: isDefault ? { ...profile, default: true } : profile,
  });
}

/** Fails if there is none. */
export function deleteProfile(environment: CliEnvironment, name: string): void {
  const { [name]: deleted, ...others } = readProfiles(environment);
  if (deleted === undefined) throw noProfile(environment, name, others);
  writeProfiles(environment, others);
}

/** Where a key comes from that is in the profile itself. */
export const fromProfile = 'the profile';

export function keyOf(environment: CliEnvironment, { apiKey, keyFile }: Profile) {
  if (apiKey !== undefined) return { apiKey, keyFrom: fromProfile };
  if (keyFile === undefined) return undefined;
  const path = resolve(environment.cwd, keyFile.replace(/^~(?=\/)/, homedir()));
  const text = readPrivate(path);
  if (text === undefined) throw usageError(`No such file: ${path}`);
  return { apiKey: text, keyFrom: path };
}

/** Undefined if there is no file. Refuses one that other users of this machine can read. */
export function readPrivate(path: string): string | undefined {
  let mode: number;
  try {
    mode = statSync(path).mode;
  } catch {
    return undefined;
  }
  if ((mode & 0o077) !== 0) {
    throw new CliError('file_not_private', `Other users can read ${path}`, {
      hint: `chmod 600 ${path}`,
    });
  }
  return readFileSync(path, 'utf8').trim();
}

/** Whether a profile is the default now, and how to use it. */
export function useOfProfile(environment: CliEnvironment, name: string) {
  const isDefault = defaultProfile(readProfiles(environment))?.[0] === name;
  return { isDefault, use: isDefault ? 'It is the default.' : `Use it with --profile ${name}.` };
}
