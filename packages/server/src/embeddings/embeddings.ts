/** Embeddings, wired: the embedder of each tenant by its own credential, and the worker that makes vectors. */
import type { Clock, Embedder, Embedders, Log, SystemStore } from '@relay/core';
import { createGoogleEmbedder, createOpenAiEmbedder } from '@relay/models';
import type { StoredEvent } from '@relay/protocol';
import type { Config } from '../config/config.ts';
import { CredentialCache } from '../outbound/credential-cache.ts';
import type { Providers } from '../outbound/providers.ts';
import type { Vault } from '../secrets/vault/vault.ts';
import { EmbeddingWorker } from './worker.ts';
import { type EmbeddingConfig, embeddingSettings } from './settings.ts';

export interface EmbeddingsOptions {
  readonly config: Pick<Config, 'embeddings'>;
  readonly file: { readonly embeddings?: EmbeddingConfig };
  readonly providers: Providers;
  readonly store: SystemStore;
  readonly vault: Pick<Vault, 'onChange'>;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Embeddings {
  readonly embedders: Embedders;
  /** A run that ends may leave a memory. */
  heard(events: readonly StoredEvent[], tenantId: string): void;
  start(): void;
  stop(): Promise<void>;
}

/** Undefined unless the operator has chosen a model. */
export function openEmbeddings(options: EmbeddingsOptions): Embeddings | undefined {
  const { config, file, providers, store, vault, clock, log } = options;
  const settings = embeddingSettings(config, file.embeddings);
  if (settings === undefined) return undefined;
  const made = new CredentialCache<Embedder>(store, (tenantId, record) => {
    const connection = { ...providers.connection(tenantId, record), ...settings };
    const isGoogle = settings.provider === 'google';
    return isGoogle ? createGoogleEmbedder(connection) : createOpenAiEmbedder(connection);
  });
  vault.onChange((tenantId) => made.drop(tenantId));
  const embedders: Embedders = {
    model: settings.name,
    of: (tenantId) => made.get(tenantId, settings.provider),
    memoryAdded: (tenantId) => worker.memoryAdded(tenantId),
  };
  const { provider } = settings;
  const worker = new EmbeddingWorker({ embedders, provider, store, clock, log });
  return {
    embedders,
    heard(events, tenantId) {
      if (events.some(({ type }) => type === 'memory.stored')) worker.memoryAdded(tenantId);
    },
    start: () => worker.start(),
    stop: () => worker.stop(),
  };
}
