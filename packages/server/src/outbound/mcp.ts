/** The MCP servers of `relay.config.ts`, and which tenants may use their tools. */
import { join } from 'node:path';
import { BackgroundLoop, type Engine, type Tool, type ToolRegistry } from '@relay/core';
import { type GuardedFetch, type OutboundGuard, UrlRefused } from '@relay/models';
import { isProgram, type McpServerConfig, secretsOf, workspaceToolNames } from '@relay/tools';
import type { McpServers } from '@relay/tools/mcp';
import { ConfigError } from '../config/config.ts';
import type { ServerLog } from '../observability/log.ts';
import { version } from '../version.ts';

const tenantLookupMs = 2_000;

export interface McpOptions extends Pick<Engine, 'store' | 'clock'> {
  readonly servers: Readonly<Record<string, McpServerConfig>> | undefined;
  readonly guard: OutboundGuard;
  readonly fetch: GuardedFetch;
  readonly dataDir: string;
  /** The tools of every tenant. */
  readonly tools: ToolRegistry;
  readonly log: ServerLog;
}

/** Undefined if no server is configured. */
export async function openMcp(options: McpOptions): Promise<McpTools | undefined> {
  const { servers = {}, guard, dataDir, tools, clock, log } = options;
  if (Object.keys(servers).length === 0) return undefined;
  for (const [name, config] of Object.entries(servers)) {
    checkUrl(guard, name, config);
    for (const secret of secretsOf(config)) log.addSecret(secret);
  }
  const { McpServers } = await import('@relay/tools/mcp');
  const mcp = new McpServers({
    servers,
    version,
    fetch: options.fetch,
    env: process.env,
    homes: join(dataDir, 'mcp'),
    cwd: process.cwd(),
    clock,
    log,
    isTaken: (name) => tools.find(name) !== undefined || workspaceToolNames.includes(name),
  });
  return new McpTools(options, servers, mcp);
}

export class McpTools {
  readonly #options: McpOptions;
  readonly #servers: NonNullable<McpOptions['servers']>;
  readonly #mcp: McpServers;
  readonly #loop: BackgroundLoop;
  /** Ids of the tenants that servers name. A tenant may be created later. */
  readonly #tenants = new Map<string, string>();

  constructor(options: McpOptions, servers: NonNullable<McpOptions['servers']>, mcp: McpServers) {
    this.#options = options;
    this.#servers = servers;
    this.#mcp = mcp;
    const { clock, log } = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs: tenantLookupMs,
      step: async () => {
        await this.#findTenants();
        return this.#missing.length > 0 ? tenantLookupMs : Infinity;
      },
      onError: (error) =>
        log.warn('Failed to look up the tenants of MCP servers', { error: String(error) }),
    });
  }

  /** A tenant's tools combined with those of the MCP servers. */
  withMcpTools(base: ToolRegistry, tenantId: string): ToolRegistry {
    const isAllowed = (server: string) => this.#isFor(server, tenantId);
    return {
      find: (name) => base.find(name) ?? this.#mcp.find(name, isAllowed),
      list: (): readonly Tool[] => [...base.list(), ...this.#mcp.list(isAllowed)],
    };
  }

  #isFor(server: string, tenantId: string): boolean {
    const named = this.#servers[server]?.tenants;
    return named === undefined || named.some((name) => this.#tenants.get(name) === tenantId);
  }

  async start(): Promise<void> {
    await this.#findTenants();
    this.#loop.start();
    await this.#mcp.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#mcp.stop();
  }

  get #missing(): string[] {
    const named = Object.values(this.#servers).flatMap(({ tenants = [] }) => tenants);
    return [...new Set(named)].filter((name) => !this.#tenants.has(name));
  }

  async #findTenants(): Promise<void> {
    for (const name of this.#missing) {
      const found = await this.#options.store.findTenant(name);
      if (found !== undefined) this.#tenants.set(name, found.id);
    }
  }
}

/** A URL that the guard always refuses is a mistake in the configuration. */
function checkUrl(guard: OutboundGuard, name: string, config: McpServerConfig): void {
  if (isProgram(config)) return;
  try {
    guard.checkUrl(new URL(config.url));
  } catch (error) {
    const why = error instanceof UrlRefused ? error.reason : (error as Error).message;
    throw new ConfigError(`relay.config: mcpServers.${name}.url: ${why}`);
  }
}
