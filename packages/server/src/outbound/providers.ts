/**
 * The models of a tenant: those that need no key, and those of the providers whose key it has. A
 * model is found by its name at once; its key is read for each call, so that one which was rotated or
 * revoked counts from the next call on.
 */
import type { CredentialRecord, Model, ModelRegistry, Price, SystemStore } from '@relay/core';
import {
  createAnthropicModel,
  createChatCompletionsModel,
  createGoogleModel,
  createResponsesModel,
  knownModel,
  type OutboundGuard,
  parseModelName,
  type ProviderOptions as ModelOptions,
  type Timeouts,
} from '@relay/models';
import { RelayError } from '@relay/protocol';
import type { Vault } from '../secrets/vault/vault.ts';

/** Providers that need no `baseUrl`, and where they are. */
const knownBaseUrls: Readonly<Record<KnownProvider, string>> = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
  google: 'https://generativelanguage.googleapis.com/v1beta',
};
export type KnownProvider = 'openai' | 'anthropic' | 'google';

export interface ProviderOptions {
  readonly builtIn: ModelRegistry;
  readonly store: SystemStore;
  readonly vault: Vault;
  readonly guard: OutboundGuard;
  /** Where the known providers are, if it is elsewhere than they say. */
  readonly endpoints?: Readonly<Partial<Record<KnownProvider, string>>>;
  readonly timeouts?: Partial<Timeouts>;
}

/** Whether somebody could offer this model; whether a tenant has the key for it is another question. */
export function isOffered(builtIn: ModelRegistry, name: string): boolean {
  if (builtIn.resolve(name) !== undefined) return true;
  return parseModelName(name) !== undefined;
}

/** A model has one price, whichever of its names it is asked for by; the operator's goes first. */
function priceOf(builtIn: ModelRegistry, name: string): Price | undefined {
  const said = builtIn.price?.(name);
  if (said !== undefined || builtIn.resolve(name) !== undefined) return said;
  const named = parseModelName(name);
  if (named === undefined) return undefined;
  const { provider, model } = named;
  const qualified = builtIn.price?.(`${provider}:${model}`);
  const short = parseModelName(model)?.provider === provider ? builtIn.price?.(model) : undefined;
  return qualified ?? short ?? knownModel(name)?.price;
}

type Connection = ModelOptions & { readonly baseUrl: string };

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
    const contextTokens = knownModel(name)?.contextTokens;
    return {
      ...(contextTokens === undefined ? {} : { contextTokens }),
      async *stream(request, signal) {
        const model = await find();
        yield* model.stream({ ...request, model: named.model }, signal);
      },
    };
  }

  /** Made once for each key. */
  async #modelFor(tenantId: string, provider: string): Promise<Model> {
    const record = await this.#options.store.tenant(tenantId).readCredential(provider);
    if (record === undefined) throw noCredential(provider);
    const place = `${tenantId}/${provider}`;
    const known = this.#models.get(place);
    if (known?.sealed === record.sealed) return known.model;
    const model = this.#make(provider, record, this.connection(tenantId, record));
    this.#models.set(place, { sealed: record.sealed, model });
    return model;
  }

  /** `openai` is spoken to by its own API, unless it is said to be somewhere else. */
  #make(provider: string, record: CredentialRecord, options: Connection): Model {
    if (provider === 'anthropic') return createAnthropicModel(options);
    if (provider === 'google') return createGoogleModel(options);
    if (provider === 'openai' && record.baseUrl === null) return createResponsesModel(options);
    return createChatCompletionsModel(options);
  }

  /** Where a tenant's provider is, and with which key; throws if it may not be connected to. */
  connection(tenantId: string, record: CredentialRecord): Connection {
    const { guard, vault, timeouts = {}, endpoints = {} } = this.#options;
    const { provider } = record;
    const own = isKnownProvider(provider) ? (endpoints[provider] ?? knownBaseUrls[provider]) : null;
    const baseUrl = record.baseUrl ?? own;
    if (baseUrl === null) throw noCredential(provider);
    const url = new URL(baseUrl);
    guard.checkUrl(url);
    const apiKey = vault.secretOf(tenantId, record);
    return { apiKey, baseUrl, agent: guard.agentFor(url), timeouts };
  }

  /** Whether a provider can be used without saying where it is. */
  static isKnown(provider: string): boolean {
    return isKnownProvider(provider);
  }
}

function isKnownProvider(provider: string): provider is KnownProvider {
  return Object.hasOwn(knownBaseUrls, provider);
}

export function noCredential(provider: string): RelayError {
  return new RelayError(
    'credential_missing',
    `There is no credential for the provider ${provider}`,
  );
}
