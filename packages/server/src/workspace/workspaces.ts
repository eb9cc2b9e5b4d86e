/**
 * Which tenants have a folder for their tools, and which tools that gives them. The folder of
 * `default` stands in the environment, that of any other tenant in its settings. No two of them, and
 * none of them and the data folder, may contain each other: what one tenant's tools write must never
 * be another's, nor Relay's own.
 */
import { mkdirSync, realpathSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  audited,
  BackgroundLoop,
  type Clock,
  type Engine,
  type Ids,
  type Log,
  type SystemStore,
  type Tool,
  type ToolRegistry,
} from '@relay/core';
import { createToolRegistry, createWorkspaceTools, isWithin } from '@relay/tools';
import { operatorAuditEntry } from '../audit/operator.ts';
import type { BashSettings } from '../config/bash-settings.ts';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/config-error.ts';
import { changeSettings } from '../config/tenant-settings.ts';

const versionName = 'workspaces';
const intervalMs = 1_000;

export interface WorkspacesOptions {
  readonly store: SystemStore;
  readonly config: Config;
  readonly defaultTenantId: string;
  /** What every tenant has. */
  readonly tools: ToolRegistry;
  /** Left out: nobody has tools that work in a folder. */
  readonly bash?: BashSettings;
  readonly clock: Clock;
  readonly log: Log;
}

interface Folder {
  readonly what: string;
  readonly place: string;
  readonly tenantId?: string;
}

export class Workspaces {
  readonly #options: WorkspacesOptions;
  readonly #loop: BackgroundLoop;
  #registries: ReadonlyMap<string, ToolRegistry> = new Map();
  #places: readonly string[] = [];
  #version: string | undefined;
  readonly #knownKeys = new Set<string>();

  constructor(options: WorkspacesOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs,
      delayFirst: true,
      step: () => this.#readAgain(),
      onError: (error) =>
        log.error('The workspaces could not be read again', { error: String(error) }),
    });
  }

  tools(tenantId: string): ToolRegistry {
    return this.#registries.get(tenantId) ?? this.#options.tools;
  }

  /** Throws a `ConfigError` if two folders are not apart. */
  async open(): Promise<void> {
    if (this.#options.bash === undefined) return;
    const { store } = this.#options;
    this.#version = await store.readMetadata(versionName);
    this.#take(await this.#folders());
  }

  /** `bootstrap` may give a tenant a folder beside the running server. */
  start(): void {
    if (this.#options.bash !== undefined) this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** `bootstrap` stores a workspace before the key: the first request with that key finds it. */
  async refreshFor(keyId: string): Promise<void> {
    if (this.#options.bash === undefined || this.#knownKeys.has(keyId)) return;
    await this.#readAgain();
    this.#knownKeys.add(keyId);
  }

  async #readAgain(): Promise<void> {
    const version = await this.#options.store.readMetadata(versionName);
    if (version === this.#version) return;
    this.#take(await this.#folders());
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
        folders.push({ what, place: realFolder(what, folder), tenantId });
      } catch (error) {
        // Others should not stand still because the folder of one is gone.
        log.error(`${name} has no tools that work in a folder`, { error: String(error) });
      }
    }
    refuseNested(folders);
    return folders;
  }

  #take(folders: readonly Folder[]): void {
    this.#places = folders.map(({ place }) => place);
    this.#registries = new Map(
      folders.flatMap(({ tenantId, place }) =>
        tenantId === undefined ? [] : [[tenantId, this.#registryOf(tenantId, place)] as const],
      ),
    );
  }

  #registryOf(tenantId: string, root: string): ToolRegistry {
    const { config, tools, bash } = this.#options;
    const own = createWorkspaceTools({
      root,
      outputs: join(config.dataDir, 'outputs', tenantId),
      env: process.env,
      pass: bash?.environment ?? [],
      ...(bash?.sandbox === undefined
        ? {}
        : {
            sandbox: {
              kind: bash.sandbox,
              network: bash.network,
              hidden: () => this.#places.filter((place) => place !== root),
            },
          }),
    });
    return withTools(tools, own);
  }
}

function withTools(base: ToolRegistry, own: readonly Tool[]): ToolRegistry {
  try {
    return createToolRegistry([...base.list(), ...own]);
  } catch (error) {
    throw new ConfigError(`relay.config: ${(error as Error).message}; it comes with a workspace`);
  }
}

function dataFolder({ dataDir }: Config): Folder {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  return { what: 'the data folder', place: realpathSync(dataDir) };
}

function folderOfDefault({ workspace }: Config, tenantId: string): Folder[] {
  if (workspace === undefined) return [];
  const what = 'RELAY_WORKSPACE';
  return [{ what, place: realFolder(what, workspace), tenantId }];
}

function realFolder(what: string, folder: string): string {
  try {
    const place = realpathSync(folder);
    if (statSync(place).isDirectory()) return place;
  } catch {
    // Said below.
  }
  throw new ConfigError(`${what}: there is no folder ${folder}`);
}

function refuseNested(folders: readonly Folder[]): void {
  for (const [index, one] of folders.entries()) {
    for (const other of folders.slice(index + 1)) {
      if (isWithin(one.place, other.place) || isWithin(other.place, one.place)) {
        throw new ConfigError(
          `${other.what} (${other.place}) and ${one.what} (${one.place}) may not contain each other`,
        );
      }
    }
  }
}

export interface WorkspaceSetting {
  readonly config: Config;
  readonly ids: Ids;
  readonly tenant: string;
  /** As somebody wrote it down in `cwd`. */
  readonly folder: string;
  readonly cwd: string;
  readonly audit: Engine['audit'];
}

/** Gives a tenant its folder; whoever has one gets this in its place. */
export async function setWorkspace(store: SystemStore, gift: WorkspaceSetting): Promise<void> {
  const { config, ids, tenant } = gift;
  if (tenant === 'default') {
    throw new ConfigError('The workspace of the tenant default is what RELAY_WORKSPACE says');
  }
  const place = realFolder('--workspace', resolve(gift.cwd, gift.folder));
  const present = await store.findTenant(tenant);
  const others: Folder[] = [dataFolder(config), ...folderOfDefault(config, '')];
  for (const { tenantId, folder } of await store.workspaces()) {
    if (tenantId === present?.id) continue;
    const { name } = await store.tenant(tenantId).readTenant();
    others.push({ what: `the workspace of ${name}`, place: existing(folder) });
  }
  refuseNested([...others, { what: '--workspace', place }]);
  const { id } = await store.ensureTenant({ id: ids.next(), name: tenant, at: Date.now() });
  const deed = operatorAuditEntry('bootstrap', 'tenant.workspace-changed', {});
  const audit = audited(gift, id, [deed]);
  await changeSettings(store.tenant(id), { workspace: place }, { audit });
  await store.writeMetadata(versionName, ids.next());
}

/** A folder that is gone still belongs to its tenant. */
function existing(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}
