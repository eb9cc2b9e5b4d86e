/**
 * `relay.config.ts`: what an operator defines in code. It is imported once at the start; whatever is
 * wrong in it stops the start with one line that says where.
 */
import { existsSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { CompactionSettings, Price, Tool } from '@relay/core';
import { fieldIssues, issueMessage, type Limits, limitsSchema } from '@relay/protocol';
import {
  type AgentConfig,
  type McpServerConfig,
  mcpServersSchema,
  type ToolDefinition,
} from '@relay/tools';
import { z } from 'zod';
import type { Timeouts } from '@relay/models';
import type { BashConfig } from './bash-settings.ts';
import { ConfigError } from './config.ts';
import { type EmbeddingConfig, embeddingSchema } from '../embeddings/settings.ts';
import type { KnownProvider } from '../outbound/providers.ts';

export interface RelayConfig {
  /** Agents that runs can begin with, spawn and hand off to, by their names. */
  readonly agents?: readonly AgentConfig[];
  /** Tools besides the built-in ones. */
  readonly tools?: readonly (Tool | ToolDefinition)[];
  /** MCP servers whose tools agents may use, by what they are called here. */
  readonly mcpServers?: Readonly<Record<string, McpServerConfig>>;
  /** Where the known providers are, if not where they say, and how long one may be silent. */
  readonly providers?: {
    readonly endpoints?: Readonly<Partial<Record<KnownProvider, string>>>;
    readonly timeouts?: Partial<Timeouts>;
  };
  /** US dollars for a million tokens, by model. */
  readonly prices?: Readonly<Record<string, Price>>;
  /** What every run may use at most; a request can only ask for less. */
  readonly limits?: Limits;
  /** How often a key may call, and how often somebody may fail to show one. */
  readonly rateLimit?: {
    readonly requestsPerMinute?: number;
    readonly failuresPerMinute?: number;
  };
  /** How the commands of the tool `bash` run. */
  readonly bash?: BashConfig;
  /** Finds memories by their meaning too: their texts and questions go to this provider. */
  readonly embeddings?: EmbeddingConfig;
  /** When and how a conversation that outgrows a model's window is summarized. */
  readonly compaction?: Partial<CompactionSettings>;
}

/** For completion and checks in an editor. */
export function defineConfig(config: RelayConfig): RelayConfig {
  return config;
}

const names = ['relay.config.ts', 'relay.config.mts', 'relay.config.js', 'relay.config.mjs'];

/** The file's definitions, or none if there is no file. */
export async function loadConfigFile(
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
): Promise<RelayConfig> {
  const path = findFile(env['RELAY_CONFIG']?.trim() ?? '', cwd);
  if (path === undefined) return {};
  const { default: config } = await importFile(path);
  const parsed = schema.safeParse(config, { error: issueMessage });
  // As it was written: a copy would not be the same agents and tools.
  if (parsed.success) return config as RelayConfig;
  const [issue] = fieldIssues(parsed.error.issues);
  throw new ConfigError(
    issue === undefined || issue.path === ''
      ? `${path} must export its configuration as default, made by defineConfig`
      : `${path}: ${issue.path}: ${issue.message}`,
  );
}

function findFile(named: string, cwd: string): string | undefined {
  if (named === '') return names.map((name) => join(cwd, name)).find((path) => existsSync(path));
  const path = isAbsolute(named) ? named : resolve(cwd, named);
  if (!existsSync(path)) throw new ConfigError(`RELAY_CONFIG: there is no file ${path}`);
  return path;
}

async function importFile(path: string): Promise<{ default?: unknown }> {
  try {
    return (await import(pathToFileURL(path).href)) as { default?: unknown };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`${path} cannot be read: ${why}`);
  }
}

const price = z.strictObject({
  inputPerMillion: z.number().nonnegative(),
  outputPerMillion: z.number().nonnegative(),
  cachedInputPerMillion: z.number().nonnegative().optional(),
  cacheWritePerMillion: z.number().nonnegative().optional(),
});
/** Timers count in 31 bits. */
const silence = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);
const endpoint = z.url({ protocol: /^https?$/ });
/** Agents and tools are checked where they are put together, which knows more. */
const definitions = z.array(z.looseObject({ name: z.string() }));
const schema = z.strictObject({
  agents: definitions.optional(),
  tools: definitions.optional(),
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
        .strictObject({ firstByteMs: silence.optional(), idleMs: silence.optional() })
        .optional(),
    })
    .optional(),
  prices: z.record(z.string().min(1), price).optional(),
  limits: limitsSchema.optional(),
  rateLimit: z
    .strictObject({
      requestsPerMinute: z.int().min(1).optional(),
      failuresPerMinute: z.int().min(1).optional(),
    })
    .optional(),
  bash: z
    .strictObject({
      sandbox: z.literal('bwrap').optional(),
      network: z.boolean().optional(),
      environment: z.array(z.string()).optional(),
    })
    .optional(),
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
