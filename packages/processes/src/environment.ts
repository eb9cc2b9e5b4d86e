/**
 * The environment of a command: a few harmless variables, and those that the operator allows. All
 * other variables of this process, such as API keys, are not passed on.
 *
 * A command that a rule allowed gets settings besides, so that files in the workspace do not make
 * programs that only read run other programs. What a program looks up in `HOME` needs no setting: that
 * folder lies outside the workspace.
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
  /** The home folder of the command, which `patch` cannot write: not that of the server's user. */
  readonly home: string;
  readonly workspace: string;
}

export function cleanEnvironment(options: EnvironmentOptions): Record<string, string> {
  const { env, pass, home, workspace } = options;
  const clean: Record<string, string> = { HOME: home, TERM: 'dumb', PATH: fallbackPath };
  for (const [name, value] of Object.entries(env)) {
    const isPassed =
      passedNames.includes(name) || passedPatterns.some((pattern) => pattern.test(name));
    if (value !== undefined && (isPassed || pass.includes(name))) clean[name] = value;
  }
  return { ...clean, PATH: safePath(clean['PATH'] ?? '', workspace) };
}

/** Each overrides what a file in the project may say. */
const readerSettings: Readonly<Record<string, string>> = {
  PAGER: 'cat',
  MANPAGER: 'cat',
  GH_PAGER: 'cat',
  EDITOR: 'false',
  VISUAL: 'false',
  BROWSER: 'false',
  LESSSECURE: '1',
  // `.npmrc`; npm ignores variables that are empty, and reads no file twice.
  npm_config_userconfig: '/dev/null',
  npm_config_globalconfig: '/dev/null/npmrc',
  npm_config_ignore_scripts: 'true',
  npm_config_script_shell: '/bin/sh',
  npm_config_shell: '/bin/sh',
  // What node does anyway: scripts of the project get this option, too.
  npm_config_node_options: '--unhandled-rejections=throw',
  npm_config_git: 'git',
  npm_config_browser: 'false',
  npm_config_editor: 'false',
  npm_config_viewer: 'false',
  // `yarnPath` in `.yarnrc.yml`
  YARN_IGNORE_PATH: '1',
  // `.cargo/config.toml`; empty means none.
  RUSTC: 'rustc',
  RUSTDOC: 'rustdoc',
  RUSTC_WRAPPER: '',
  RUSTC_WORKSPACE_WRAPPER: '',
  CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS: 'cargo:token',
  // `rust-toolchain.toml` can name a folder with another cargo.
  RUSTUP_TOOLCHAIN: 'stable',
  PIP_CONFIG_FILE: '/dev/null',
  PIP_NO_INPUT: '1',
  PYTHONNOUSERSITE: '1',
  GOENV: 'off',
  GOTOOLCHAIN: 'local',
  // `.hg/hgrc`
  HGPLAIN: '1',
  HGRCPATH: '',
  HGRCSKIPREPO: '1',
  TF_CLI_CONFIG_FILE: '/dev/null',
};

const gitVariables: Readonly<Record<string, string>> = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_PAGER: 'cat',
  GIT_EDITOR: 'false',
  GIT_SEQUENCE_EDITOR: 'false',
  GIT_ASKPASS: '',
  GIT_TERMINAL_PROMPT: '0',
  GIT_SSH_COMMAND: 'ssh -oBatchMode=yes',
  GIT_OPTIONAL_LOCKS: '0',
  // `remote.<name>.uploadpack` runs on this machine for a remote in a folder, also when git fetches
  // an object that a partial clone lacks; `ext::` runs anything.
  GIT_ALLOW_PROTOCOL: 'http:https:ssh',
  GIT_NO_LAZY_FETCH: '1',
};

/** Stronger than `.git/config`, for settings with one value. */
const gitSettings: readonly (readonly [string, string])[] = [
  ['core.fsmonitor', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.pager', 'cat'],
  ['core.attributesFile', '/dev/null'],
  ['safe.bareRepository', 'explicit'],
  ['log.showSignature', 'false'],
  ['gpg.program', 'false'],
  ['gpg.openpgp.program', 'false'],
  ['gpg.x509.program', 'false'],
  ['gpg.ssh.program', 'false'],
  ['credential.helper', ''],
  ['help.format', 'info'],
];

/**
 * The settings of a command that a rule allowed.
 * @param checked Repositories whose settings were checked (`repositories.ts`); git then uses no others,
 * such as one that the command itself creates. Undefined: the command is not about git.
 */
export function readerEnvironment(checked?: readonly string[]): Record<string, string> {
  const settings = [
    ...gitSettings,
    ...(checked ?? []).map((folder) => ['safe.directory', folder] as const),
  ];
  const env: Record<string, string> = { ...readerSettings, ...gitVariables };
  env['GIT_CONFIG_COUNT'] = String(settings.length);
  for (const [index, [key, value]] of settings.entries()) {
    env[`GIT_CONFIG_KEY_${index}`] = key;
    env[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  // Only for its own tests does git offer a way to trust no folder but those in `safe.directory`.
  if (checked !== undefined) env['GIT_TEST_ASSUME_DIFFERENT_OWNER'] = '1';
  return env;
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
