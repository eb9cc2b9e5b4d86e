/**
 * Embeddings of memories: settings, the embedder of each tenant (with the tenant's own credential), and
 * the worker that creates vectors. Without an embedding model in the configuration no text is sent to
 * a provider, whatever credentials exist.
 */
import type { Embedder, Embedders, Engine } from '@relay/core';
import { createGoogleEmbedder, createOpenAiEmbedder } from '@relay/models';
import { z } from 'zod';
import { type Config, ConfigError } from '../config/config.ts';
import { CredentialCache } from '../outbound/credential-cache.ts';
import type { Providers } from '../outbound/providers.ts';
import type { Vault } from '../secrets/vault.ts';
import { EmbeddingWorker } from './embedding-worker.ts';

export interface EmbeddingsOptions extends Pick<Engine, 'store' | 'clock' | 'log'> {
  readonly config: Pick<Config, 'embeddings'>;
  readonly file: { readonly embeddings?: EmbeddingConfig };
  readonly providers: Providers;
  readonly vault: Pick<Vault, 'onChange' | 'read'>;
}

/** Undefined unless an embedding model is configured. */
export function openEmbeddings(
  options: EmbeddingsOptions,
): { embedders: Embedders; worker: EmbeddingWorker } | undefined {
  const { config, file, providers, store, vault, clock, log } = options;
  const settings = embeddingSettings(config, file.embeddings);
  if (settings === undefined) return undefined;
  const cache = new CredentialCache<Embedder>(vault, (tenantId, record) => {
    const connection = { ...providers.connection(tenantId, record), ...settings };
    const isGoogle = settings.provider === 'google';
    return isGoogle ? createGoogleEmbedder(connection) : createOpenAiEmbedder(connection);
  });
  const embedders: Embedders = {
    model: settings.name,
    of: (tenantId) => cache.get(tenantId, settings.provider),
    memoryAdded: (tenantId) => worker.memoryAdded(tenantId),
  };
  const { provider } = settings;
  const worker = new EmbeddingWorker({ embedders, provider, store, clock, log });
  return { embedders, worker };
}

export const embeddingSchema = z.strictObject({
  /** A provider and its model, such as `openai:text-embedding-3-small`. */
  model: z.string().min(1),
  /** Shorter vectors, for models that support them. */
  dimensions: z.int().min(8).max(8_192).optional(),
  /** The minimum similarity of related texts; each model has its own scale. */
  floor: z.number().min(0).max(1).optional(),
  /** How long a run waits for the vector of its query. */
  questionTimeoutMs: z.int().min(10).max(60_000).optional(),
});

export type EmbeddingConfig = Readonly<z.input<typeof embeddingSchema>>;

export interface EmbeddingSettings {
  readonly provider: string;
  readonly model: string;
  /** The name stored with vectors; only vectors of the same name are compared. */
  readonly name: string;
  readonly dimensions: number | undefined;
  readonly floor: number;
  readonly questionMs: number;
}

/** Typical values of these models; the default for others is cautious. */
const floors: Readonly<Record<string, number>> = {
  'text-embedding-3-small': 0.3,
  'text-embedding-3-large': 0.3,
  'text-embedding-ada-002': 0.78,
  'gemini-embedding-001': 0.6,
};
const defaultFloor = 0.5;
const defaultQuestionMs = 1_500;
/** Known to have no embeddings API: rejected here instead of failing in every run. */
const unsupportedProviders = new Set(['anthropic']);

export function embeddingSettings(
  config: Pick<Config, 'embeddings'>,
  file: EmbeddingConfig | undefined,
): EmbeddingSettings | undefined {
  const name = config.embeddings ?? file?.model;
  if (name === undefined) return undefined;
  const from =
    config.embeddings === undefined ? 'relay.config: embeddings.model' : 'RELAY_EMBEDDINGS';
  const [, provider, model] = /^([a-z0-9-]{1,32}):(\S+)$/.exec(name) ?? [];
  if (provider === undefined || model === undefined) {
    throw new ConfigError(
      `${from} must be like openai:text-embedding-3-small, not ${JSON.stringify(name)}`,
    );
  }
  if (unsupportedProviders.has(provider)) {
    throw new ConfigError(`${from}: ${provider} offers no embeddings`);
  }
  // The other settings in the file apply to the model in the file only.
  const settings = file?.model === name ? file : undefined;
  const dimensions = settings?.dimensions;
  return {
    provider,
    model,
    name: dimensions === undefined ? name : `${name}/${dimensions}`,
    dimensions,
    floor: settings?.floor ?? floors[model] ?? defaultFloor,
    questionMs: settings?.questionTimeoutMs ?? defaultQuestionMs,
  };
}
