/**
 * `relay.config.ts`: what an operator defines in code. It is imported once at startup. A mistake in it
 * stops the start with a one-line error that says where it is, and shows the line.
 */
import { existsSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ActionHandler, CompactionSettings, Harness, Price, Tool } from '@relay/core';
import { harnessProblem } from '@relay/harnesses';
import {
  actionBodySchema,
  fieldIssues,
  issueMessage,
  type Limits,
  limitsSchema,
} from '@relay/protocol';
import { bubblewrapProblem, refusedVariable, type Sandbox } from '@relay/processes';
import {
  type AgentConfig,
  type McpServerConfig,
  mcpServersSchema,
  type ToolDefinition,
} from '@relay/tools';
import { z } from 'zod';
import type { Timeouts } from '@relay/models';
import { ConfigError, type Config } from './config.ts';
import { configFileNames } from './file-names.ts';
import { describeLoadError } from './load-error.ts';
import { type EmbeddingConfig, embeddingSchema } from '../jobs/embeddings.ts';
import type { KnownProvider } from '../outbound/providers.ts';

export interface RelayConfig {
  /** Agents that runs can begin with, spawn and hand off to, by their names. */
  readonly agents?: readonly AgentConfig[];
  /** Tools besides the built-in ones. */
  readonly tools?: readonly (Tool | ToolDefinition)[];
  /** Actions that all tenants have, with functions of this process. */
  readonly actions?: readonly ActionConfig[];
  /** What `POST /v1/sessions` can create sessions of, besides the built-in harnesses. */
  readonly harnesses?: readonly Harness[];
  /** MCP servers whose tools agents may use, by name. */
  readonly mcpServers?: Readonly<Record<string, McpServerConfig>>;
  /** Other base URLs for the known providers, and timeouts. */
  readonly providers?: {
    readonly endpoints?: Readonly<Partial<Record<KnownProvider, string>>>;
    readonly timeouts?: Partial<Timeouts>;
  };
  /** US dollars per million tokens, by model. */
  readonly prices?: Readonly<Record<string, Price>>;
  /** Limits of every run; a request can only lower them. */
  readonly limits?: Limits;
  /** Per key: requests, and megabytes of their bodies. Per tenant: requests. Per address: failures. */
  readonly rateLimit?: {
    readonly requestsPerMinute?: number;
    readonly tenantRequestsPerMinute?: number;
    readonly megabytesPerMinute?: number;
    readonly failuresPerMinute?: number;
  };
  /** How the commands of the tool `bash` run. */
  readonly bash?: BashConfig;
  /** Enables semantic search of memories. Their texts and the queries are sent to this provider. */
  readonly embeddings?: EmbeddingConfig;
  /** When and how a conversation that outgrows a model's window is summarized. */
  readonly compaction?: Partial<CompactionSettings>;
}

/** An action whose handler is a function. */
export type ActionConfig = Omit<z.input<typeof actionBodySchema>, 'handler'> & {
  readonly handler: ActionHandler;
};

/** For completion and checks in an editor. */
export function defineConfig(config: RelayConfig): RelayConfig {
  return config;
}

/** Returns `{}` if there is no file. */
export async function loadConfigFile(
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
): Promise<RelayConfig> {
  const path = findConfigFile(env, cwd);
  if (path === undefined) return {};
  const { default: config } = await importFile(path);
  return checkConfig(path, config);
}

/** `source` names it in errors. */
export function checkConfig(source: string, config: unknown): RelayConfig {
  const parsed = configSchema.safeParse(config, { error: issueMessage });
  // Not the parsed copy: agents and tools are compared by identity.
  if (parsed.success) return config as RelayConfig;
  const [issue] = fieldIssues(parsed.error.issues);
  throw new ConfigError(
    issue === undefined || issue.path === ''
      ? `${source} must export its configuration as default, made by defineConfig`
      : `${source}: ${issue.path}: ${issue.message}`,
  );
}

export function findConfigFile(
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
): string | undefined {
  const named = env['RELAY_CONFIG']?.trim() ?? '';
  if (named === '')
    return configFileNames.map((name) => join(cwd, name)).find((path) => existsSync(path));
  const path = isAbsolute(named) ? named : resolve(cwd, named);
  if (!existsSync(path)) throw new ConfigError(`RELAY_CONFIG: there is no file ${path}`);
  return path;
}

async function importFile(path: string): Promise<{ default?: unknown }> {
  try {
    return (await import(pathToFileURL(path).href)) as { default?: unknown };
  } catch (error) {
    const { message, excerpt } = describeLoadError(path, error);
    throw new ConfigError(message, { excerpt });
  }
}

export const priceSchema = z.strictObject({
  inputPerMillion: z.number().nonnegative(),
  outputPerMillion: z.number().nonnegative(),
  cachedInputPerMillion: z.number().nonnegative().optional(),
  cacheWritePerMillion: z.number().nonnegative().optional(),
});
/** Timers have 31 bits. */
const timeoutMs = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);
const endpoint = z.url({ protocol: /^https?$/ });
/** Agents and tools are checked in `definitions.ts`. */
const definitions = z.array(z.looseObject({ name: z.string() }));
const actionSchema = actionBodySchema.extend({
  handler: z.custom<ActionHandler>((value) => typeof value === 'function', 'Must be a function'),
});
const harnessesSchema = z.array(z.looseObject({})).superRefine((harnesses, context) => {
  const names = new Set<unknown>();
  for (const [index, harness] of harnesses.entries()) {
    const problem = harnessProblem(harness);
    if (problem !== undefined) {
      const { path, message } = problem;
      context.addIssue({ code: 'custom', path: [index, path], message });
    } else if (names.has(harness['name'])) {
      const message = `Another harness has the name ${String(harness['name'])}`;
      context.addIssue({ code: 'custom', path: [index, 'name'], message });
    }
    names.add(harness['name']);
  }
});
const bashSchema = z.strictObject({
  /** Whether sandboxed commands may use the network. Default: yes. */
  network: z.boolean().optional(),
  /** The most memory of a process of a sandboxed command. Default: 4096. */
  memoryMb: z.int().min(16).max(16_000_000).optional(),
  /** The most processes and threads of a sandboxed command. Default: 1024. */
  processes: z.int().min(8).max(4_000_000).optional(),
  /** Environment variables that commands inherit from the server, besides PATH and a few others. */
  environment: z.array(z.string()).readonly().optional(),
});
export const configSchema = z.strictObject({
  agents: definitions.optional(),
  tools: definitions.optional(),
  actions: z.array(actionSchema).optional(),
  harnesses: harnessesSchema.optional(),
  mcpServers: mcpServersSchema.optional(),
  providers: z
    .strictObject({
      endpoints: z
        .strictObject({
          openai: endpoint.optional(),
          anthropic: endpoint.optional(),
          google: endpoint.optional(),
        })
        .optional(),
      timeouts: z
        .strictObject({ firstByteMs: timeoutMs.optional(), idleMs: timeoutMs.optional() })
        .optional(),
    })
    .optional(),
  prices: z.record(z.string().min(1), priceSchema).optional(),
  limits: limitsSchema.optional(),
  rateLimit: z
    .strictObject({
      requestsPerMinute: z.int().min(1).optional(),
      tenantRequestsPerMinute: z.int().min(1).optional(),
      megabytesPerMinute: z.int().min(1).optional(),
      failuresPerMinute: z.int().min(1).optional(),
    })
    .optional(),
  bash: bashSchema.optional(),
  embeddings: embeddingSchema.optional(),
  compaction: z
    .strictObject({
      threshold: z.number().gt(0).max(1).optional(),
      keep: z.number().gt(0).lt(1).optional(),
      windowTokens: z.int().min(1).optional(),
      model: z.string().min(1).optional(),
    })
    .optional(),
});

export type BashConfig = Readonly<z.input<typeof bashSchema>>;

export interface BashSettings {
  /** Undefined: no command runs in a sandbox. */
  readonly sandbox: Sandbox | undefined;
  readonly environment: readonly string[];
  /** Which commands run in a sandbox, for the operator. */
  readonly summary: string;
}

const megabyte = 1024 * 1024;

export async function bashSettings(
  { sandbox: mode }: Pick<Config, 'sandbox'>,
  file: BashConfig = {},
  findProblem: () => Promise<string | undefined> = bubblewrapProblem,
): Promise<BashSettings> {
  const problem = mode === 'off' ? 'RELAY_SANDBOX is off' : await findProblem();
  if (mode === 'bwrap' && problem !== undefined) {
    throw new ConfigError(`RELAY_SANDBOX is bwrap, but ${problem}`);
  }
  if (problem !== undefined && file.network === false) {
    throw new ConfigError(`relay.config: bash.network: false requires a sandbox, but ${problem}`);
  }
  for (const [index, name] of (file.environment ?? []).entries()) {
    const refused = refusedVariable(name);
    if (refused !== undefined) {
      throw new ConfigError(`relay.config: bash.environment[${index}]: ${refused}`);
    }
  }
  const { environment = [], network = true, memoryMb = 4_096, processes = 1_024 } = file;
  if (problem !== undefined) {
    return { sandbox: undefined, environment, summary: `No command runs in a sandbox: ${problem}` };
  }
  const commands = mode === 'bwrap' ? 'all' : 'allowed-by-rule';
  return {
    sandbox: { commands, network, memoryBytes: memoryMb * megabyte, processes },
    environment,
    summary:
      mode === 'bwrap'
        ? 'All commands run in a sandbox (RELAY_SANDBOX=bwrap)'
        : 'Commands that a rule allows run in a sandbox, approved ones do not',
  };
}
