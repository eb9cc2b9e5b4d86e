/**
 * The MCP servers of a node and their tools. There is one connection to each server, which all tenants
 * with access to it share.
 */
import { join, resolve } from 'node:path';
import type { FetchLike, Tool as ListedTool } from '@modelcontextprotocol/client';
import type { Clock, Log, Tool } from '@relay/core';
import { defined } from '@relay/protocol';
import { McpConnection } from './connection.ts';
import { EndpointTransport, type RequestOwner } from './endpoint-transport.ts';
import { ConnectionSupervisor, type RetryTimings } from './connection-supervisor.ts';
import { createMcpTool, createPendingTool, problemOf } from './mcp-tool.ts';
import { ProgramTransport } from './program-transport.ts';
import { isProgram, type McpServerConfig } from './settings.ts';
import { mapToolNames, mayOffer, serverOf } from './tool-names.ts';

/** Models cannot choose among more, and a list may be endless. */
const maxTools = 256;
/** Per log line. */
const maxLogged = 20;
const defaultTimeoutMs = 60_000;
/** How long `start` waits for servers to list their tools. */
const startTimeoutMs = 5_000;

export interface McpOptions {
  readonly servers: Readonly<Record<string, McpServerConfig>>;
  readonly version: string;
  /** Decides which addresses may be reached. */
  readonly fetch: FetchLike;
  /** The environment of this process. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder with the home folders of the programs. */
  readonly homes: string;
  readonly cwd: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether another tool has this name. */
  readonly isTaken: (name: string) => boolean;
  readonly timings?: RetryTimings;
}

interface ManagedServer {
  readonly name: string;
  readonly config: McpServerConfig;
  readonly supervisor: ConnectionSupervisor;
  /** Undefined until the server has listed them. */
  tools: ReadonlyMap<string, Tool> | undefined;
  /** Why tools are omitted, as it was logged last. */
  problems: string;
}

export class McpServers {
  readonly #options: McpOptions;
  readonly #servers: ReadonlyMap<string, ManagedServer>;

  constructor(options: McpOptions) {
    this.#options = options;
    this.#servers = new Map(
      Object.entries(options.servers).map(([name, config]) => [
        name,
        this.#createServer(name, config),
      ]),
    );
  }

  /** Waits for the servers, but not long for one that is slow or down. */
  async start(): Promise<void> {
    const { clock, log } = this.#options;
    const tried = Promise.all(
      [...this.#servers.values()].map(({ supervisor }) => supervisor.start()),
    );
    const timeout = new AbortController();
    await Promise.race([tried, clock.sleep(startTimeoutMs, timeout.signal)]);
    timeout.abort();
    for (const { name, tools, supervisor } of this.#servers.values()) {
      if (tools !== undefined || supervisor.hasFailed) continue;
      log.warn(`The MCP server ${name} has not responded yet. Its tools are added when it does`);
    }
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#servers.values()].map(({ supervisor }) => supervisor.stop()));
  }

  /** The tools of the servers that are included. */
  list(includes: (server: string) => boolean): readonly Tool[] {
    return [...this.#servers.values()].flatMap(({ name, tools }) =>
      includes(name) ? [...(tools?.values() ?? [])] : [],
    );
  }

  find(name: string, includes: (server: string) => boolean): Tool | undefined {
    const server = this.#servers.get(serverOf(name) ?? '');
    if (server === undefined || !includes(server.name)) return undefined;
    if (server.tools !== undefined) return server.tools.get(name);
    const isExpected = mayOffer({ [server.name]: server.config }, name);
    if (!isExpected || this.#options.isTaken(name)) return undefined;
    return createPendingTool(name, server.name, server.config, async (signal) => {
      await server.supervisor.ready(signal);
      const tool = server.tools?.get(name);
      if (tool === undefined) throw new Error(`The MCP server ${server.name} has no such tool`);
      return tool;
    });
  }

  #createServer(name: string, config: McpServerConfig): ManagedServer {
    const { clock, log, timings } = this.#options;
    const supervisor = new ConnectionSupervisor({
      name,
      clock,
      log,
      open: (onToolsChanged, signal) =>
        McpConnection.open(this.#connectionOptions(name, config, onToolsChanged), signal),
      listed: (listed) => {
        const tools = this.#createTools(server, listed);
        this.#logChanges(server, tools);
        server.tools = tools;
      },
      ...defined({ timings }),
    });
    const server: ManagedServer = { name, config, supervisor, tools: undefined, problems: '' };
    return server;
  }

  #connectionOptions(name: string, config: McpServerConfig, onToolsChanged: () => void) {
    const { version, fetch, env, homes, cwd } = this.#options;
    const { timeoutMs = defaultTimeoutMs, connectTimeoutMs = defaultTimeoutMs } = config;
    const createTransport = (currentOwner: () => RequestOwner | undefined) =>
      isProgram(config)
        ? new ProgramTransport({
            config,
            env,
            home: join(homes, name),
            cwd: resolve(cwd, config.cwd ?? '.'),
          })
        : new EndpointTransport({ config, fetch, currentOwner });
    return { name, version, timeoutMs, connectTimeoutMs, createTransport, onToolsChanged };
  }

  #createTools(server: ManagedServer, all: readonly ListedTool[]): ReadonlyMap<string, Tool> {
    const { name, config, supervisor } = server;
    const selection = config.tools;
    const selected = all.filter((tool) => selection?.includes(tool.name) ?? true);
    const { named, refused } = mapToolNames(name, selected);
    const problems = [...refused];
    const tools = new Map<string, Tool>();
    for (const { name: full, listed } of named) {
      const problem = tooMany(tools.size) ?? this.#problemOf(full, listed);
      if (problem !== undefined) problems.push(`${full}: ${problem}`);
      else {
        const ready = supervisor.ready.bind(supervisor);
        tools.set(full, createMcpTool({ name: full, listed, config, ready }));
      }
    }
    for (const tool of selection ?? []) {
      if (!all.some((listed) => listed.name === tool))
        problems.push(`${tool}: the server has no such tool`);
    }
    const before = server.problems;
    server.problems = problems.join('\n');
    // A server is listed regularly.
    if (problems.length > 0 && server.problems !== before) {
      const omitted = problems.slice(0, maxLogged).map((problem) => problem.slice(0, 300));
      const more = problems.length - omitted.length;
      this.#options.log.warn(`Tools of the MCP server ${name} are omitted`, { omitted, more });
    }
    return tools;
  }

  /** Grants and approvals of these tools no longer hold. */
  #logChanges({ name, tools: before }: ManagedServer, now: ReadonlyMap<string, Tool>): void {
    const changed = [...now.values()]
      .filter(
        (tool) =>
          before?.has(tool.name) &&
          tool.definitionDigest !== before.get(tool.name)?.definitionDigest,
      )
      .map((tool) => tool.name);
    if (changed.length === 0) return;
    const tools = changed.slice(0, maxLogged);
    const more = changed.length - tools.length;
    this.#options.log.warn(`The MCP server ${name} has changed the definitions of tools`, {
      tools,
      more,
    });
  }

  #problemOf(name: string, listed: ListedTool): string | undefined {
    return this.#options.isTaken(name) ? 'another tool has this name' : problemOf(listed);
  }
}

function tooMany(count: number): string | undefined {
  return count < maxTools ? undefined : `a server may have at most ${maxTools} tools`;
}
