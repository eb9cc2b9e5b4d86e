/**
 * The models of a tenant: those that need no key, and those of the providers whose key it has. A
 * model is found by its name at once; its key is read for each call, so that one which was rotated or
 * revoked counts from the next call on.
 */
import type { Model, ModelRegistry, Price, SystemStore } from '@relay/core';
import { createChatCompletionsModel, type OutboundGuard, parseModelName } from '@relay/models';
import { RelayError } from '@relay/protocol';
import type { Vault } from './vault/vault.ts';

/** Providers that need no `baseUrl`. */
const knownBaseUrls = new Map([['openai', 'https://api.openai.com/v1']]);
/** Known by the names of their models, but not spoken to yet. */
const notYet = new Set(['anthropic', 'google']);

export interface ProviderOptions {
  readonly builtIn: ModelRegistry;
  readonly store: SystemStore;
  readonly vault: Vault;
  readonly guard: OutboundGuard;
}

/** Whether somebody could offer this model; whether a tenant has the key for it is another question. */
export function isOffered(builtIn: ModelRegistry, name: string): boolean {
  if (builtIn.resolve(name) !== undefined) return true;
  const named = parseModelName(name);
  return named !== undefined && !notYet.has(named.provider);
}

/** A model has one price, whichever of its names it is asked for by. */
function priceOf(builtIn: ModelRegistry, name: string): Price | undefined {
  const known = builtIn.price?.(name);
  const named = known === undefined ? parseModelName(name) : undefined;
  if (named === undefined) return known;
  const { provider, model } = named;
  const qualified = builtIn.price?.(`${provider}:${model}`);
  return (
    qualified ?? (parseModelName(model)?.provider === provider ? builtIn.price?.(model) : undefined)
  );
}

export class Providers {
  readonly #options: ProviderOptions;
  readonly #models = new Map<string, { sealed: string; model: Model }>();

  constructor(options: ProviderOptions) {
    this.#options = options;
  }

  /** The registry of one tenant. */
  of(tenantId: string): ModelRegistry {
    const { builtIn } = this.#options;
    return {
      resolve: (name) => builtIn.resolve(name) ?? this.#remote(tenantId, name),
      list: () => builtIn.list(),
      price: (name) => priceOf(builtIn, name),
      missing: async (name) => {
        const named = builtIn.resolve(name) === undefined ? parseModelName(name) : undefined;
        if (named === undefined) return undefined;
        const store = this.#options.store.tenant(tenantId);
        return (await store.readCredential(named.provider)) === undefined
          ? named.provider
          : undefined;
      },
    };
  }

  #remote(tenantId: string, name: string): Model | undefined {
    const named = parseModelName(name);
    if (named === undefined || !isOffered(this.#options.builtIn, name)) return undefined;
    const find = () => this.#modelFor(tenantId, named.provider);
    return {
      async *stream(request, signal) {
        const model = await find();
        yield* model.stream({ ...request, model: named.model }, signal);
      },
    };
  }

  /** Made once for each key. */
  async #modelFor(tenantId: string, provider: string): Promise<Model> {
    const { store, vault, guard } = this.#options;
    const record = await store.tenant(tenantId).readCredential(provider);
    if (record === undefined) throw noCredential(provider);
    const place = `${tenantId}/${provider}`;
    const known = this.#models.get(place);
    if (known?.sealed === record.sealed) return known.model;
    const baseUrl = record.baseUrl ?? knownBaseUrls.get(provider);
    if (baseUrl === undefined) throw noCredential(provider);
    const url = new URL(baseUrl);
    guard.checkUrl(url);
    const model = createChatCompletionsModel({
      baseUrl,
      apiKey: vault.secretOf(tenantId, record),
      agent: guard.agentFor(url),
    });
    this.#models.set(place, { sealed: record.sealed, model });
    return model;
  }

  /** Known by name, but nothing could be done with its key. */
  static isNotYet(provider: string): boolean {
    return notYet.has(provider);
  }

  /** Whether a provider can be used without saying where it is. */
  static isKnown(provider: string): boolean {
    return knownBaseUrls.has(provider);
  }
}

export function noCredential(provider: string): RelayError {
  return new RelayError(
    'credential_missing',
    `There is no credential for the provider ${provider}`,
  );
}
