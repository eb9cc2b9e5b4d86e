/** The MCP servers of `relay.config.ts`, and which tenants have their tools. */
import { join } from 'node:path';
import type { Clock, SystemStore, Tool, ToolRegistry } from '@relay/core';
import type { OutboundGuard } from '@relay/models';
import { isProgram, type McpServerConfig, secretsOf, workspaceToolNames } from '@relay/tools';
import type { McpServers } from '@relay/tools/mcp';
import { ConfigError } from '../config/config-error.ts';
import { createGuardedFetch } from './guarded-fetch.ts';
import type { ServerLog } from '../observability/log.ts';
import { version } from '../version.ts';

const lookEveryMs = 2_000;

export interface McpWorld {
  readonly servers: Readonly<Record<string, McpServerConfig>> | undefined;
  readonly store: SystemStore;
  readonly guard: OutboundGuard;
  readonly dataDir: string;
  /** What every tenant has besides. */
  readonly tools: ToolRegistry;
  readonly clock: Clock;
  readonly log: ServerLog;
}

/** What there is to do with them, or nothing if there are none. */
export interface Mcp {
  /** A tenant's tools with those that the servers bring. */
  over(base: ToolRegistry, tenantId: string): ToolRegistry;
  start(): Promise<void>;
  stop(): Promise<void>;
}

const none: Mcp = { over: (base) => base, start: async () => {}, stop: async () => {} };

export async function openMcp(world: McpWorld): Promise<Mcp> {
  const { servers = {}, guard, dataDir, tools, clock, log } = world;
  if (Object.keys(servers).length === 0) return none;
  for (const [name, config] of Object.entries(servers)) {
    checkUrl(guard, name, config);
    for (const secret of secretsOf(config)) log.conceal(secret);
  }
  const { McpServers } = await import('@relay/tools/mcp');
  const mcp = new McpServers({
    servers,
    version,
    fetch: createGuardedFetch(guard),
    env: process.env,
    homes: join(dataDir, 'mcp'),
    cwd: process.cwd(),
    clock,
    log,
    isTaken: (name) => tools.find(name) !== undefined || workspaceToolNames.includes(name),
  });
  return new OpenMcp(world, servers, mcp);
}

class OpenMcp implements Mcp {
  readonly #world: McpWorld;
  readonly #servers: NonNullable<McpWorld['servers']>;
  readonly #mcp: McpServers;
  readonly #stopped = new AbortController();
  /** Ids of the tenants that a server names; whoever is not there yet may be made later. */
  readonly #tenants = new Map<string, string>();
  #work: Promise<void> = Promise.resolve();

  constructor(world: McpWorld, servers: NonNullable<McpWorld['servers']>, mcp: McpServers) {
    this.#world = world;
    this.#servers = servers;
    this.#mcp = mcp;
  }

  over(base: ToolRegistry, tenantId: string): ToolRegistry {
    const isMeant = (server: string) => this.#isFor(server, tenantId);
    return {
      find: (name) => base.find(name) ?? this.#mcp.find(name, isMeant),
      list: (): readonly Tool[] => [...base.list(), ...this.#mcp.list(isMeant)],
    };
  }

  #isFor(server: string, tenantId: string): boolean {
    const named = this.#servers[server]?.tenants;
    return named === undefined || named.some((name) => this.#tenants.get(name) === tenantId);
  }

  async start(): Promise<void> {
    await this.#lookForTenants();
    this.#work = this.#keepLooking();
    await this.#mcp.start();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#work;
    await this.#mcp.stop();
  }

  get #missing(): string[] {
    const named = Object.values(this.#servers).flatMap(({ tenants = [] }) => tenants);
    return [...new Set(named)].filter((name) => !this.#tenants.has(name));
  }

  async #lookForTenants(): Promise<void> {
    for (const name of this.#missing) {
      const found = await this.#world.store.findTenant(name);
      if (found !== undefined) this.#tenants.set(name, found.id);
    }
  }

  async #keepLooking(): Promise<void> {
    const { signal } = this.#stopped;
    const { clock, log } = this.#world;
    while (this.#missing.length > 0) {
      await clock.sleep(lookEveryMs, signal);
      if (signal.aborted) return;
      await this.#lookForTenants().catch((error: unknown) =>
        log.warn('The tenants of MCP servers could not be looked up', { error: String(error) }),
      );
    }
  }
}

/** What can already be seen to be refused is a mistake in the configuration. */
function checkUrl(guard: OutboundGuard, name: string, config: McpServerConfig): void {
  if (isProgram(config)) return;
  try {
    guard.checkUrl(new URL(config.url));
  } catch (error) {
    const why = (error as Error).message.replace(/^The provider’s URL is refused: /, '');
    throw new ConfigError(`relay.config: mcpServers.${name}.url: ${why}`);
  }
}
