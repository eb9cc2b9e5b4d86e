/**
 * How the program of an agent is started: a clean environment, a home folder of its own, the tenant's keys in
 * the environment and nowhere else, and the sandbox where there is one.
 */
import { lstat, mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import type { HarnessCredential, HarnessProcess } from '@relay/core';
import {
  cleanEnvironment,
  type CommandLine,
  findProgram,
  inBubblewrap,
  isWithin,
} from '@relay/processes';
import type { AgentPreset, AgentSetting } from './presets.ts';

export interface AgentCommandOptions {
  readonly command: readonly [program: string, ...args: string[]];
  readonly env: Readonly<Record<string, string>>;
  readonly home: 'own' | 'operator';
  readonly providers: readonly string[];
  readonly preset: Partial<AgentPreset>;
  readonly model: string | undefined;
  readonly isSandboxed: boolean;
  readonly memoryBytes: number;
}

export interface AgentCommand {
  readonly line: Omit<CommandLine, 'hasInput'>;
  /** In its environment. */
  readonly secrets: readonly string[];
}

/** Throws an error that says what to do if the agent cannot be started here. */
export async function agentCommand(
  options: AgentCommandOptions,
  given: HarnessProcess,
): Promise<AgentCommand> {
  const { preset, model, home: whose } = options;
  const { workspace } = given;
  if (whose === 'operator' && !given.isDefaultTenant) {
    throw new Error('Only the tenant default can use the login of the operator');
  }
  const problem = await preset.problemWith?.(workspace);
  if (problem !== undefined) throw new Error(problem);
  const credentials = await credentialsOf(options.providers, given);
  const home = whose === 'operator' ? undefined : given.home;
  if (home !== undefined) await writeFiles(home, preset.files ?? {});
  const env = environmentOf(options, { home, model, credentials }, given);
  const [program, ...args] = options.command;
  const file = await findProgram(program, (env['PATH'] ?? '').split(delimiter));
  if (file === undefined) throw new Error(notInstalled(program, preset.package));
  const line = { file, args, cwd: workspace, env };
  const secrets = [
    given.mcp.token,
    ...Object.values(credentials).map(({ apiKey }) => apiKey),
    ...secretValues(options.env),
  ];
  const { sandbox } = given;
  if (sandbox === undefined || !options.isSandboxed) return { line, secrets };
  const view = {
    root: workspace,
    home: home ?? homedir(),
    hidden: given.hidden(),
    isNesting: preset.nestsSandboxes ?? false,
  };
  const limits = { ...sandbox, commands: 'all', memoryBytes: options.memoryBytes } as const;
  return { line: inBubblewrap(line, limits, view), secrets };
}

function notInstalled(program: string, name: string | undefined): string {
  const how =
    name === undefined
      ? 'install it, or correct the command of the harness in relay.config.ts'
      : `npm install -g ${name}`;
  return `The program ${program} is not installed on the server: ${how}`;
}

async function credentialsOf(providers: readonly string[], { credential }: HarnessProcess) {
  const found: Record<string, HarnessCredential> = {};
  for (const provider of providers) {
    const key = await credential(provider);
    if (key !== undefined) found[provider] = key;
  }
  return found;
}

/**
 * A path that ends with a slash is a folder. The agent can write in its home, and is not running now. Links that
 * it has left there are removed: otherwise they could make Relay write what the agent cannot.
 */
async function writeFiles(home: string, files: Readonly<Record<string, unknown>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    const names = path.split('/');
    const name = names.pop() ?? '';
    let folder = home;
    for (const each of names) {
      folder = join(folder, each);
      await makeFolder(folder);
    }
    if (name === '') continue;
    const file = join(folder, name);
    await rm(file, { recursive: true, force: true });
    await writeFile(file, JSON.stringify(content), { mode: 0o600, flag: 'wx' });
  }
}

async function makeFolder(path: string): Promise<void> {
  const isFolder = await lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (isFolder) return;
  await rm(path, { force: true });
  await mkdir(path, { mode: 0o700 });
}

function environmentOf(
  { preset, env: own, providers }: AgentCommandOptions,
  setting: AgentSetting,
  { workspace, home }: HarnessProcess,
): Record<string, string> {
  const clean = cleanEnvironment({ env: process.env, pass: [], home, workspace });
  // `/tmp` is another folder in a sandbox.
  delete clean['TMPDIR'];
  const folders = setting.home === undefined ? operatorFolders() : ownFolders(setting.home);
  const defaults = preset.environment?.(setting) ?? keyVariables(providers, setting.credentials);
  const env: Record<string, string> = {
    ...clean,
    ...folders,
    PATH: agentPath(clean['PATH'] ?? '', workspace),
    ...defaults,
  };
  for (const [name, value] of Object.entries(own)) env[name] = merged(env[name], value);
  return env;
}

/**
 * Programs that are installed beside `relay.config.ts` are found first; Node, which most agents need, also if it
 * is not on the PATH. Nothing of the workspace is, because agents can write there.
 */
function agentPath(path: string, workspace: string): string {
  const own = [resolve('node_modules/.bin'), ...path.split(delimiter), dirname(process.execPath)];
  const folders = own.filter((folder) => folder !== '' && !isWithin(workspace, folder));
  return [...new Set(folders)].join(delimiter);
}

function ownFolders(home: string): Record<string, string> {
  return {
    HOME: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_DATA_HOME: join(home, '.local/share'),
    XDG_STATE_HOME: join(home, '.local/state'),
    XDG_CACHE_HOME: join(home, '.cache'),
  };
}

function operatorFolders(): Record<string, string> {
  const folders = Object.entries(process.env).filter(([name]) => /^XDG_\w+_HOME$/.test(name));
  return {
    ...Object.fromEntries(folders.map(([name, path]) => [name, path ?? ''])),
    HOME: homedir(),
  };
}

/** For agents without a preset, under the names that most programs know. */
function keyVariables(
  providers: readonly string[],
  credentials: AgentSetting['credentials'],
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const provider of providers) {
    const key = credentials[provider];
    if (key === undefined) continue;
    const name = provider.replaceAll(/\W/g, '_').toUpperCase();
    env[`${name}_API_KEY`] = key.apiKey;
    if (key.baseUrl !== undefined) env[`${name}_BASE_URL`] = key.baseUrl;
  }
  return env;
}

/** Two JSON objects are merged, so that another model does not switch off the permission settings. */
function merged(before: string | undefined, value: string): string {
  const [old, own] = [objectIn(before), objectIn(value)];
  return old === undefined || own === undefined ? value : JSON.stringify(mergedObjects(old, own));
}

type JsonObject = Readonly<Record<string, unknown>>;

function mergedObjects(old: JsonObject, own: JsonObject): JsonObject {
  const result: Record<string, unknown> = { ...old };
  for (const [name, value] of Object.entries(own)) {
    const before = result[name];
    result[name] = isObject(before) && isObject(value) ? mergedObjects(before, value) : value;
  }
  return result;
}

function objectIn(text: string | undefined): JsonObject | undefined {
  if (text?.trimStart().startsWith('{') !== true) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const secretName = /key|token|secret|pass|auth|credential/i;
const minSecretChars = 6;

function secretValues(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    secretName.test(name) && value.length >= minSecretChars ? value : [],
  );
}
