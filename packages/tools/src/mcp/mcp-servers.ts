/**
 * The MCP servers of a node and their tools. There is one connection to each server, which all tenants
 * with access to it share.
 */
import { join, resolve } from 'node:path';
import type { FetchLike, Tool as ListedTool } from '@modelcontextprotocol/client';
import type { Clock, Tool } from '@relay/core';
import { defined } from '@relay/protocol';
import { McpConnection } from './connection.ts';
import { EndpointTransport, type RequestOwner } from './endpoint-transport.ts';
import { ConnectionSupervisor, type McpLog, type RetryTimings } from './connection-supervisor.ts';
import { createMcpTool, createPendingTool, problemOf } from './mcp-tool.ts';
import { ProgramTransport } from './program-transport.ts';
import { SecretRedactor } from './secrets.ts';
import { isProgram, type McpServerConfig } from './settings.ts';
import { mapToolNames, mayOffer, serverOf, suggestion } from './tool-names.ts';

/** Models cannot choose among more, and a list may be endless. */
const maxTools = 256;
const maxLogged = 20;
const maxWarningChars = 400;
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
  readonly log: McpLog;
  /** Whether another tool has this name. */
  readonly isTaken: (name: string) => boolean;
  /** The agents, whose tools may be some of these. */
  readonly agents?: readonly { readonly name: string; readonly tools?: readonly string[] }[];
  readonly timings?: RetryTimings;
}

/** What an operator wants to know about a server. */
export interface McpServerStatus {
  readonly name: string;
  readonly connected: boolean;
  /** Why it is not connected. */
  readonly problem?: string;
  /** How many tools are known, also while it is not connected. */
  readonly tools: number;
  /** Mistakes in the settings, and tools that cannot be used. */
  readonly warnings: readonly string[];
}

interface ManagedServer {
  readonly name: string;
  readonly config: McpServerConfig;
  readonly supervisor: ConnectionSupervisor;
  /** Undefined until the server has listed them. */
  tools: ReadonlyMap<string, Tool> | undefined;
  /** As they were logged last. */
  warnings: readonly string[];
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
    const { clock } = this.#options;
    const tried = Promise.all(
      [...this.#servers.values()].map(({ supervisor }) => supervisor.start()),
    );
    const timeout = new AbortController();
    await Promise.race([tried, clock.sleep(startTimeoutMs, timeout.signal)]);
    timeout.abort();
    for (const { supervisor } of this.#servers.values()) supervisor.report();
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

  status(includes: (server: string) => boolean): readonly McpServerStatus[] {
    return [...this.#servers.values()].flatMap(({ name, supervisor, tools, warnings }) => {
      if (!includes(name)) return [];
      const { problem } = supervisor;
      const connected = problem === undefined;
      return [{ name, connected, ...defined({ problem }), tools: tools?.size ?? 0, warnings }];
    });
  }

  find(name: string, includes: (server: string) => boolean): Tool | undefined {
    const server = this.#servers.get(serverOf(name) ?? '');
    if (server === undefined || !includes(server.name)) return undefined;
    if (server.tools !== undefined) return server.tools.get(name);
    const isExpected = mayOffer({ [server.name]: server.config }, name);
    if (!isExpected || this.#options.isTaken(name)) return undefined;
    return createPendingTool({
      name,
      server: server.name,
      config: server.config,
      unavailable: () => server.supervisor.unavailable,
      find: async (signal) => {
        await server.supervisor.ready(signal);
        const tool = server.tools?.get(name);
        if (tool === undefined) throw new Error(`The MCP server ${server.name} has no such tool`);
        return tool;
      },
    });
  }

  #createServer(name: string, config: McpServerConfig): ManagedServer {
    const { clock, log, timings } = this.#options;
    const redactor = new SecretRedactor(config);
    const supervisor = new ConnectionSupervisor({
      name,
      redact: (text) => redactor.text(text),
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
    const server: ManagedServer = { name, config, supervisor, tools: undefined, warnings: [] };
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
    const omitted = [...refused];
    const tools = new Map<string, Tool>();
    for (const { name: full, listed } of named) {
      const problem = tooMany(tools.size) ?? this.#problemOf(full, listed);
      if (problem !== undefined) omitted.push(`${full}: ${problem}`);
      else {
        const ready = supervisor.ready.bind(supervisor);
        const unavailable = () => supervisor.unavailable;
        tools.set(full, createMcpTool({ name: full, listed, config, ready, unavailable }));
      }
    }
    this.#warn(server, [
      ...this.#misnamed(server, all, [...tools.keys()]),
      ...omitted.map((problem) => `A tool of the MCP server ${name} cannot be used: ${problem}`),
    ]);
    return tools;
  }

  /** Names in the settings and in agents that mean no tool of the server. */
  #misnamed(
    { name, config }: ManagedServer,
    all: readonly ListedTool[],
    usable: readonly string[],
  ): string[] {
    const offered = all.map((tool) => tool.name);
    const lists = {
      tools: config.tools,
      readOnly: config.readOnly,
      idempotent: config.idempotent,
      kinds: Object.keys(config.kinds ?? {}),
    };
    const missing = Object.entries(lists).flatMap(([setting, names]) =>
      (Array.isArray(names) ? (names as readonly string[]) : [])
        .filter((tool) => !offered.includes(tool))
        .map((tool) => ({ subject: `mcpServers.${name}.${setting}`, tool, known: offered })),
    );
    const unknown = (this.#options.agents ?? []).flatMap((agent) =>
      (agent.tools ?? [])
        .filter((tool) => serverOf(tool) === name && !usable.includes(tool))
        .filter((tool) => !this.#options.isTaken(tool))
        .map((tool) => ({ subject: `The agent ${agent.name}`, tool, known: usable })),
    );
    return [...missing, ...unknown].map(
      ({ subject, tool, known }) =>
        `${subject} names the tool ${tool}, which the MCP server ${name} does not offer; ${suggestion(tool, known)}`,
    );
  }

  /** Logs what is new: a server is listed regularly. */
  #warn(server: ManagedServer, found: readonly string[]): void {
    const before = server.warnings;
    server.warnings = found.slice(0, maxLogged).map((warning) => warning.slice(0, maxWarningChars));
    for (const warning of server.warnings) {
      if (!before.includes(warning)) this.#options.log.warn(warning);
    }
    const more = found.length - server.warnings.length;
    if (more > 0 && before.length === 0) {
      this.#options.log.warn(`${more} more problems of tools of the MCP server ${server.name}`);
    }
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
