/**
 * What a command finds in its environment: a few variables that say where it is, and those that the
 * operator named. Whatever else this process was started with, keys among it, stays here.
 */
import { delimiter, isAbsolute, resolve } from 'node:path';
import { isWithin } from './place.ts';

const passed = ['PATH', 'LANG', 'LANGUAGE', 'TZ', 'TMPDIR', 'USER', 'LOGNAME'];
const passedForms = [/^LC_[A-Z]+$/];
const fallbackPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export interface EnvironmentWish {
  /** What this process was started with. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names that the operator lets pass besides. */
  readonly pass: readonly string[];
  /** Where programs keep what they keep: in the workspace, not with whoever runs the server. */
  readonly home: string;
}

export function cleanEnvironment({ env, pass, home }: EnvironmentWish): Record<string, string> {
  const clean: Record<string, string> = { HOME: home, TERM: 'dumb', PATH: fallbackPath };
  for (const [name, value] of Object.entries(env)) {
    const isPassed = passed.includes(name) || passedForms.some((form) => form.test(name));
    if (value !== undefined && (isPassed || pass.includes(name))) clean[name] = value;
  }
  return { ...clean, PATH: safePath(clean['PATH'] ?? '', home) };
}

/**
 * Without folders that are relative or lie in the workspace: a rule that allows `ls` means the
 * system's, not a file of that name that somebody has put there.
 */
function safePath(path: string, workspace: string): string {
  const safe = path
    .split(delimiter)
    .filter((folder) => isAbsolute(folder) && !isWithin(workspace, resolve(folder)));
  return safe.length === 0 ? fallbackPath : safe.join(delimiter);
}

/** Why a name cannot be passed on; undefined if it can. */
export function refusedVariable(name: string): string | undefined {
  if (!/^[A-Za-z_]\w*$/.test(name)) return `${JSON.stringify(name)} is not the name of a variable`;
  if (/^RELAY_/i.test(name)) return `${name} may hold a secret of Relay's own`;
  if (
    /^(?:BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|LD_.*|DYLD_.*|BASH_FUNC_.*)$/.test(name)
  ) {
    return `${name} would change what commands mean`;
  }
  return undefined;
}
