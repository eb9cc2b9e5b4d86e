/**
 * The MCP servers of a node and the tools that they bring. There is one connection to each server,
 * which all tenants share that may use it.
 */
import { join, resolve } from 'node:path';
import type { FetchLike, Tool as ListedTool } from '@modelcontextprotocol/client';
import type { Clock, Log, Tool } from '@relay/core';
import { McpConnection } from './connection.ts';
import { EndpointTransport, type Sender } from './endpoint-transport.ts';
import { McpLink, type Pauses } from './link.ts';
import { createAwaitedTool, createMcpTool, problemOf } from './mcp-tool.ts';
import { ProgramTransport } from './program-transport.ts';
import { isProgram, type McpServerConfig } from './settings.ts';
import { mayOffer, nameAll, serverOf } from './tool-names.ts';

/** Models cannot choose among more, and a list can be endless. */
const maxTools = 256;
/** Of each kind in one line of the log. */
const maxTold = 20;
const defaultTimeoutMs = 60_000;
/** How long a start waits for servers to say what they offer. */
const startMs = 5_000;

export interface McpOptions {
  readonly servers: Readonly<Record<string, McpServerConfig>>;
  readonly version: string;
  /** Decides which addresses may be reached. */
  readonly fetch: FetchLike;
  /** What this process was started with. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder that holds a home for each program. */
  readonly homes: string;
  readonly cwd: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether a tool of another kind has this name. */
  readonly isTaken: (name: string) => boolean;
  readonly pauses?: Pauses;
}

interface Kept {
  readonly name: string;
  readonly config: McpServerConfig;
  readonly link: McpLink;
  /** Undefined until it has said what it offers. */
  tools: ReadonlyMap<string, Tool> | undefined;
}

export class McpServers {
  readonly #options: McpOptions;
  readonly #kept: ReadonlyMap<string, Kept>;

  constructor(options: McpOptions) {
    this.#options = options;
    this.#kept = new Map(
      Object.entries(options.servers).map(([name, config]) => [name, this.#keep(name, config)]),
    );
  }

  /** A server that is slow or down holds nobody up for long. */
  async start(): Promise<void> {
    const { clock } = this.#options;
    const tried = Promise.all([...this.#kept.values()].map(({ link }) => link.start()));
    const waited = new AbortController();
    await Promise.race([tried, clock.sleep(startMs, waited.signal)]);
    waited.abort();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#kept.values()].map(({ link }) => link.stop()));
  }

  /** Of the servers that are meant. */
  list(isMeant: (server: string) => boolean): readonly Tool[] {
    return [...this.#kept.values()].flatMap(({ name, tools }) =>
      isMeant(name) ? [...(tools?.values() ?? [])] : [],
    );
  }

  find(name: string, isMeant: (server: string) => boolean): Tool | undefined {
    const kept = this.#kept.get(serverOf(name) ?? '');
    if (kept === undefined || !isMeant(kept.name)) return undefined;
    if (kept.tools !== undefined) return kept.tools.get(name);
    const isExpected = mayOffer({ [kept.name]: kept.config }, name);
    return isExpected && !this.#options.isTaken(name) ? awaited(kept, name) : undefined;
  }

  #keep(name: string, config: McpServerConfig): Kept {
    const { clock, log, pauses } = this.#options;
    const link = new McpLink({
      name,
      clock,
      log,
      open: (changed, signal) =>
        McpConnection.open(this.#connecting(name, config, changed), signal),
      listed: (listed) => {
        const tools = this.#toolsOf(kept, listed);
        this.#tellChanges(kept, tools);
        kept.tools = tools;
      },
      ...(pauses === undefined ? {} : { pauses }),
    });
    const kept: Kept = { name, config, link, tools: undefined };
    return kept;
  }

  #connecting(name: string, config: McpServerConfig, changed: () => void) {
    const { version, fetch, env, homes, cwd } = this.#options;
    const { timeoutMs = defaultTimeoutMs, connectTimeoutMs = defaultTimeoutMs } = config;
    const open = (sender: () => Sender | undefined) =>
      isProgram(config)
        ? new ProgramTransport({
            config,
            env,
            home: join(homes, name),
            cwd: resolve(cwd, config.cwd ?? '.'),
          })
        : new EndpointTransport({ config, fetch, sender });
    return { name, version, timeoutMs, connectTimeoutMs, open, changed };
  }

  #toolsOf({ name, config, link }: Kept, all: readonly ListedTool[]): ReadonlyMap<string, Tool> {
    const wanted = config.tools;
    const chosen = all.filter((tool) => wanted === undefined || wanted.includes(tool.name));
    const { named, refused } = nameAll(name, chosen);
    const problems = [...refused];
    const tools = new Map<string, Tool>();
    for (const { name: full, listed } of named) {
      const problem = tooMany(tools.size) ?? this.#problemOf(full, listed);
      if (problem !== undefined) problems.push(`${full}: ${problem}`);
      else {
        const ready = link.ready.bind(link);
        tools.set(full, createMcpTool({ name: full, listed, config, ready }));
      }
    }
    for (const tool of wanted ?? []) {
      if (!all.some((listed) => listed.name === tool)) problems.push(`${tool}: it is not offered`);
    }
    if (problems.length > 0) {
      const left = problems.slice(0, maxTold).map((problem) => problem.slice(0, 300));
      const more = problems.length - left.length;
      this.#options.log.warn(`Tools of the MCP server ${name} are left out`, { left, more });
    }
    return tools;
  }

  /** What people have allowed they have allowed by its name: another meaning should be seen. */
  #tellChanges({ name, tools: before }: Kept, now: ReadonlyMap<string, Tool>): void {
    const changed = [...now.values()]
      .filter((tool) => before?.has(tool.name) && said(tool) !== said(before.get(tool.name)))
      .map((tool) => tool.name);
    if (changed.length === 0) return;
    const tools = changed.slice(0, maxTold);
    const more = changed.length - tools.length;
    this.#options.log.warn(`The MCP server ${name} says something else of its tools now`, {
      tools,
      more,
    });
  }

  #problemOf(name: string, listed: ListedTool): string | undefined {
    if (this.#options.isTaken(name)) return 'another tool has this name';
    const problem = problemOf(listed);
    return problem === undefined ? undefined : `its schema cannot be used: ${problem}`;
  }
}

function said(tool: Tool | undefined): string {
  const { description, inputSchema, allowedByDefault, idempotent } = tool ?? {};
  return JSON.stringify([description, inputSchema, allowedByDefault, idempotent]);
}

function tooMany(count: number): string | undefined {
  return count < maxTools ? undefined : `a server may bring ${maxTools} tools`;
}

function awaited(kept: Kept, name: string): Tool {
  const { name: server, config, link } = kept;
  return createAwaitedTool({
    name,
    server,
    config,
    async find(signal) {
      await link.ready(signal);
      const tool = kept.tools?.get(name);
      if (tool === undefined) throw new Error(`The MCP server ${server} has no such tool`);
      return tool;
    },
  });
}
