/**
 * Workspaces: the folders that tenants' tools work in, and the tools that a workspace adds. The folder
 * of `default` comes from the environment, that of any other tenant from its settings. No workspace
 * may contain another one or the data folder, so that tools of one tenant never write files of another
 * tenant or of Relay.
 */
import { mkdirSync, realpathSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  auditRecordsOf,
  BackgroundLoop,
  type Engine,
  type Ids,
  type SystemStore,
  type Tool,
  type ToolRegistry,
} from '@relay/core';
import { defined } from '@relay/protocol';
import { isWithin } from '@relay/processes';
import { createToolRegistry, createWorkspaceTools } from '@relay/tools';
import { operatorAuditEntry } from '../audit/operator-entries.ts';
import type { BashSettings } from '../config/config-file.ts';
import { type Config, ConfigError } from '../config/config.ts';
import { changeSettings } from '../config/tenant-settings.ts';

const versionName = 'workspaces';
const intervalMs = 1_000;

export interface WorkspacesOptions extends Pick<Engine, 'store' | 'clock' | 'log'> {
  readonly config: Config;
  readonly defaultTenantId: string;
  /** The tools of every tenant. */
  readonly tools: ToolRegistry;
  /** Undefined: no tenant has workspace tools. */
  readonly bash?: BashSettings;
}

interface Folder {
  readonly what: string;
  readonly path: string;
  readonly tenantId?: string;
}

export class Workspaces {
  readonly #options: WorkspacesOptions;
  readonly #loop: BackgroundLoop;
  #registries: ReadonlyMap<string, ToolRegistry> = new Map();
  #paths: readonly string[] = [];
  #roots: ReadonlyMap<string, string> = new Map();
  #version: string | undefined;
  readonly #knownKeys = new Set<string>();

  constructor(options: WorkspacesOptions) {
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock: options.clock,
      intervalMs,
      delayFirst: true,
      step: () => this.#reload(),
      onError: this.#reportFailure,
    });
  }

  tools(tenantId: string): ToolRegistry {
    return this.#registries.get(tenantId) ?? this.#options.tools;
  }

  /** Whether no tenant has one. */
  get isEmpty(): boolean {
    return this.#roots.size === 0;
  }

  /** The workspace of a tenant, as a real path. */
  folderOf(tenantId: string): string | undefined {
    return this.#roots.get(tenantId);
  }

  /** The folders of Relay and of other tenants. */
  hiddenFrom(tenantId: string): readonly string[] {
    const own = this.folderOf(tenantId);
    return this.#paths.filter((path) => path !== own);
  }

  /** Throws a `ConfigError` if two folders overlap. */
  async open(): Promise<void> {
    if (this.#options.bash === undefined) return;
    const { store } = this.#options;
    this.#version = await store.readMetadata(versionName);
    this.#apply(await this.#folders());
  }

  /** `bootstrap` may set a tenant's workspace beside the running server. */
  start(): void {
    if (this.#options.bash !== undefined) this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** `bootstrap` stores a workspace before the key: the first request with that key finds it. */
  async refreshFor(keyId: string): Promise<void> {
    if (this.#options.bash === undefined || this.#knownKeys.has(keyId)) return;
    this.#knownKeys.add(keyId);
    // A bad workspace must not reject requests: the loop reports it and tries again.
    await this.#reload().catch(this.#reportFailure);
  }

  readonly #reportFailure = (error: unknown) =>
    this.#options.log.error('Failed to reload the workspaces', { error: String(error) });

  async #reload(): Promise<void> {
    const version = await this.#options.store.readMetadata(versionName);
    if (version === this.#version) return;
    this.#apply(await this.#folders());
    this.#version = version;
  }

  async #folders(): Promise<Folder[]> {
    const { config, store, defaultTenantId, log } = this.#options;
    const folders: Folder[] = [dataFolder(config), ...folderOfDefault(config, defaultTenantId)];
    for (const { tenantId, folder } of await store.workspaces()) {
      if (tenantId === defaultTenantId) continue;
      const { name } = await store.tenant(tenantId).readTenant();
      const what = `the workspace of ${name}`;
      try {
        folders.push({ what, path: realFolder(what, folder), tenantId });
      } catch (error) {
        // A missing folder of one tenant must not affect the others.
        log.error(`The tenant ${name} has no workspace tools`, { error: String(error) });
      }
    }
    requireDisjoint(folders);
    return folders;
  }

  #apply(folders: readonly Folder[]): void {
    this.#paths = folders.map(({ path }) => path);
    this.#roots = new Map(
      folders.flatMap(({ tenantId, path }) => (tenantId === undefined ? [] : [[tenantId, path]])),
    );
    this.#registries = new Map(
      Array.from(this.#roots, ([tenantId, root]) => [tenantId, this.#registryOf(tenantId, root)]),
    );
  }

  #registryOf(tenantId: string, root: string): ToolRegistry {
    const { config, tools, bash } = this.#options;
    const own = createWorkspaceTools({
      root,
      outputs: join(config.dataDir, 'outputs', tenantId),
      // Real, because the data folder that commands may not name is; it must not be mistaken for that.
      home: join(realpathSync(config.dataDir), 'homes', tenantId),
      env: process.env,
      pass: bash?.environment ?? [],
      hidden: () => this.hiddenFrom(tenantId),
      ...defined({ sandbox: bash?.sandbox }),
    });
    return withTools(tools, own);
  }
}

function withTools(base: ToolRegistry, own: readonly Tool[]): ToolRegistry {
  try {
    return createToolRegistry([...base.list(), ...own]);
  } catch (error) {
    throw new ConfigError(`relay.config: ${(error as Error).message}; workspaces add that tool`);
  }
}

function dataFolder({ dataDir }: Config): Folder {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  return { what: 'the data folder', path: realpathSync(dataDir) };
}

function folderOfDefault({ workspace }: Config, tenantId: string): Folder[] {
  if (workspace === undefined) return [];
  const what = 'RELAY_WORKSPACE';
  return [{ what, path: realFolder(what, workspace), tenantId }];
}

function realFolder(what: string, folder: string): string {
  try {
    const path = realpathSync(folder);
    if (statSync(path).isDirectory()) return path;
  } catch {
    // Reported below.
  }
  throw new ConfigError(`${what}: there is no folder ${folder}`);
}

function requireDisjoint(folders: readonly Folder[]): void {
  for (const [index, one] of folders.entries()) {
    for (const other of folders.slice(index + 1)) {
      if (isWithin(one.path, other.path) || isWithin(other.path, one.path)) {
        throw new ConfigError(
          `${other.what} (${other.path}) and ${one.what} (${one.path}) overlap: choose separate folders`,
        );
      }
    }
  }
}

export interface WorkspaceSetting {
  readonly config: Config;
  readonly ids: Ids;
  readonly tenant: string;
  /** Relative to `cwd`. */
  readonly folder: string;
  readonly cwd: string;
  readonly audit: Engine['audit'];
}

/** Sets or replaces a tenant's workspace. */
export async function setWorkspace(store: SystemStore, setting: WorkspaceSetting): Promise<void> {
  const { config, ids, tenant } = setting;
  if (tenant === 'default') {
    throw new ConfigError('Set the workspace of the tenant default with RELAY_WORKSPACE');
  }
  const path = realFolder('--workspace', resolve(setting.cwd, setting.folder));
  const existing = await store.findTenant(tenant);
  const others: Folder[] = [dataFolder(config), ...folderOfDefault(config, '')];
  for (const { tenantId, folder } of await store.workspaces()) {
    if (tenantId === existing?.id) continue;
    const { name } = await store.tenant(tenantId).readTenant();
    others.push({ what: `the workspace of ${name}`, path: realPathOrUnchanged(folder) });
  }
  requireDisjoint([...others, { what: '--workspace', path }]);
  const { id } = await store.ensureTenant({ id: ids.next(), name: tenant, at: Date.now() });
  const entry = operatorAuditEntry('bootstrap', 'tenant.workspace-changed', {});
  const audit = auditRecordsOf(setting, id, [entry]);
  await changeSettings(store.tenant(id), { workspace: path }, { audit });
  await store.writeMetadata(versionName, ids.next());
}

/** A folder that was deleted still belongs to its tenant. */
function realPathOrUnchanged(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}
