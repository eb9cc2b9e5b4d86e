/** Embeddings, wired: the embedder of each tenant by its own credential, and the keeper of vectors. */
import type { Clock, Embedder, Embedders, Log, SystemStore } from '@relay/core';
import { createGoogleEmbedder, createOpenAiEmbedder } from '@relay/models';
import type { StoredEvent } from '@relay/protocol';
import type { Config } from '../config/config.ts';
import type { Providers } from '../outbound/providers.ts';
import { EmbeddingWorker } from './worker.ts';
import { type EmbeddingConfig, embeddingSettings, type EmbeddingSettings } from './settings.ts';

export interface EmbeddingsOptions {
  readonly config: Pick<Config, 'embeddings'>;
  readonly file: { readonly embeddings?: EmbeddingConfig };
  readonly providers: Providers;
  readonly store: SystemStore;
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
  const { config, file, providers, store, clock, log } = options;
  const settings = embeddingSettings(config, file.embeddings);
  if (settings === undefined) return undefined;
  const embedders: Embedders = {
    model: settings.name,
    of: ofTenants({ settings, providers, store }),
    remembered: (tenantId) => keeper.remembered(tenantId),
  };
  const { provider } = settings;
  const keeper = new EmbeddingWorker({ embedders, provider, store, clock, log });
  return {
    embedders,
    heard(events, tenantId) {
      if (events.some(({ type }) => type === 'memory.stored')) keeper.remembered(tenantId);
    },
    start: () => keeper.start(),
    stop: () => keeper.stop(),
  };
}

/** Made once for each key; the key is looked at each time, so that a new one counts at once. */
function ofTenants(from: {
  settings: EmbeddingSettings;
  providers: Providers;
  store: SystemStore;
}): Embedders['of'] {
  const { settings, providers, store } = from;
  const made = new Map<string, { sealed: string; embedder: Embedder }>();
  return async (tenantId) => {
    const record = await store.tenant(tenantId).readCredential(settings.provider);
    if (record === undefined) {
      made.delete(tenantId);
      return undefined;
    }
    const known = made.get(tenantId);
    if (known?.sealed === record.sealed) return known.embedder;
    const options = { ...providers.connection(tenantId, record), ...settings };
    const isGoogle = settings.provider === 'google';
    const embedder = isGoogle ? createGoogleEmbedder(options) : createOpenAiEmbedder(options);
    made.set(tenantId, { sealed: record.sealed, embedder });
    return embedder;
  };
}
