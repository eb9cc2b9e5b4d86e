/** The MCP servers of `relay.config.ts`, and which tenants may use their tools. */
import { join } from 'node:path';
import type { AgentRegistry, Engine, Tool, ToolRegistry } from '@relay/core';
import { type OutboundGuard, UrlRefused } from '@relay/models';
import { isProgram, type McpServerConfig, secretsOf, workspaceToolNames } from '@relay/tools';
import type { McpServers, McpServerStatus } from '@relay/tools/mcp';
import { ConfigError } from '../config/config.ts';
import type { ServerLog } from '../observability/log.ts';
import { version } from '../version.ts';
import type { OutboundGuards } from './guards.ts';
import type { NamedTenants } from './named-tenants.ts';

export interface McpOptions extends Pick<Engine, 'store' | 'clock'> {
  readonly servers: Readonly<Record<string, McpServerConfig>> | undefined;
  readonly guards: OutboundGuards;
  readonly dataDir: string;
  /** In which programs run. */
  readonly cwd: string;
  /** The tools of every tenant. */
  readonly tools: ToolRegistry;
  readonly agents: AgentRegistry;
  readonly log: ServerLog;
  readonly tenants: NamedTenants;
}

/** Undefined if no server is configured. */
export async function openMcp(options: McpOptions): Promise<McpTools | undefined> {
  const { servers = {}, guards, dataDir, cwd, tools, agents, clock, log } = options;
  if (Object.keys(servers).length === 0) return undefined;
  for (const [name, config] of Object.entries(servers)) {
    checkUrl(guards.operator, name, config);
    for (const secret of secretsOf(config)) log.addSecret(secret);
  }
  const { McpServers } = await import('@relay/tools/mcp');
  const mcp = new McpServers({
    servers,
    version,
    fetch: guards.operator.fetch,
    env: process.env,
    homes: join(dataDir, 'mcp'),
    cwd,
    clock,
    log,
    isTaken: (name) => tools.find(name) !== undefined || workspaceToolNames.includes(name),
    agents: agents.list(),
  });
  return new McpTools(options, servers, mcp);
}

export class McpTools {
  readonly #options: McpOptions;
  readonly #servers: NonNullable<McpOptions['servers']>;
  readonly #mcp: McpServers;

  constructor(options: McpOptions, servers: NonNullable<McpOptions['servers']>, mcp: McpServers) {
    this.#options = options;
    this.#servers = servers;
    this.#mcp = mcp;
  }

  /** A tenant's tools combined with those of the MCP servers. */
  withMcpTools(base: ToolRegistry, tenantId: string): ToolRegistry {
    const isAllowed = (server: string) => this.#isFor(server, tenantId);
    return {
      find: (name) => base.find(name) ?? this.#mcp.find(name, isAllowed),
      list: (): readonly Tool[] => [...base.list(), ...this.#mcp.list(isAllowed)],
    };
  }

  /** The servers that a tenant has, or all. */
  status(tenantId?: string): readonly McpServerStatus[] {
    return this.#mcp.status((server) => tenantId === undefined || this.#isFor(server, tenantId));
  }

  #isFor(server: string, tenantId: string): boolean {
    const named = this.#servers[server]?.tenants;
    const { tenants } = this.#options;
    return named === undefined || named.some((name) => tenants.idOf(name) === tenantId);
  }

  start(): Promise<void> {
    return this.#mcp.start();
  }

  stop(): Promise<void> {
    return this.#mcp.stop();
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
