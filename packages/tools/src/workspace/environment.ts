/**
 * The environment of a command: a few harmless variables, and those that the operator allows. All
 * other variables of this process, such as API keys, are not passed on.
 */
import { delimiter, isAbsolute, resolve } from 'node:path';
import { isWithin } from './paths.ts';

const passedNames = ['PATH', 'LANG', 'LANGUAGE', 'TZ', 'TMPDIR', 'USER', 'LOGNAME'];
const passedPatterns = [/^LC_[A-Z]+$/];
const fallbackPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export interface EnvironmentOptions {
  /** The environment of this process. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of further variables to pass on. */
  readonly pass: readonly string[];
  /** The home folder of the command: the workspace, not that of the server's user. */
  readonly home: string;
}

export function cleanEnvironment({ env, pass, home }: EnvironmentOptions): Record<string, string> {
  const clean: Record<string, string> = { HOME: home, TERM: 'dumb', PATH: fallbackPath };
  for (const [name, value] of Object.entries(env)) {
    const isPassed =
      passedNames.includes(name) || passedPatterns.some((pattern) => pattern.test(name));
    if (value !== undefined && (isPassed || pass.includes(name))) clean[name] = value;
  }
  return { ...clean, PATH: safePath(clean['PATH'] ?? '', home) };
}

/**
 * Without folders that are relative or lie in the workspace: a rule that allows `ls` means the
 * program of the system, not a file of that name in the workspace.
 */
function safePath(path: string, workspace: string): string {
  const safe = path
    .split(delimiter)
    .filter((folder) => isAbsolute(folder) && !isWithin(workspace, resolve(folder)));
  return safe.length === 0 ? fallbackPath : safe.join(delimiter);
}

/** Why a variable cannot be passed on; undefined if it can. */
export function refusedVariable(name: string): string | undefined {
  if (!/^[A-Za-z_]\w*$/.test(name)) return `${JSON.stringify(name)} is not the name of a variable`;
  if (/^RELAY_/i.test(name)) return `${name} may contain a Relay secret`;
  if (
    /^(?:BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|LD_.*|DYLD_.*|BASH_FUNC_.*)$/.test(name)
  ) {
    return `${name} can change which programs a command runs`;
  }
  return undefined;
}
