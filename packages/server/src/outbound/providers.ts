/**
 * The models of a tenant: those that need no key, and those of providers that the tenant has a key
 * for. The key is read for each call, so a changed or deleted key takes effect with the next call.
 */
import type { CredentialRecord, Model, ModelRegistry, Price } from '@relay/core';
import {
  createAnthropicModel,
  createChatCompletionsModel,
  createGoogleModel,
  createResponsesModel,
  knownModel,
  type ModelTable,
  parseModelName,
  type ProviderOptions as ModelOptions,
  type Timeouts,
} from '@relay/models';
import { defined, RelayError } from '@relay/protocol';
import { CredentialCache } from './credential-cache.ts';
import type { OutboundGuards } from './guards.ts';
import { keyVariableOf } from '../config/provider-keys.ts';
import type { Vault } from '../secrets/vault.ts';

/** Providers with a default base URL. */
const knownBaseUrls: Readonly<Record<KnownProvider, string>> = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
  google: 'https://generativelanguage.googleapis.com/v1beta',
};
export type KnownProvider = 'openai' | 'anthropic' | 'google';

export interface ProviderOptions {
  readonly builtIn: ModelRegistry;
  readonly vault: Vault;
  readonly guards: OutboundGuards;
  /** The operator's own windows and prices. */
  readonly table?: ModelTable;
  readonly endpoints?: Readonly<Partial<Record<KnownProvider, string>>>;
  readonly timeouts?: Partial<Timeouts>;
}

/** Whether a provider could offer this model, regardless of a tenant's keys. */
export function isOffered(builtIn: ModelRegistry, name: string): boolean {
  return builtIn.resolve(name) !== undefined || parseModelName(name) !== undefined;
}

/** A model has one price under all its names. The operator's price overrides the built-in one. */
function priceOf(builtIn: ModelRegistry, name: string, table: ModelTable): Price | undefined {
  const configured = builtIn.price?.(name);
  if (configured !== undefined || builtIn.resolve(name) !== undefined) return configured;
  const named = parseModelName(name);
  if (named === undefined) return undefined;
  const { provider, model } = named;
  const qualified = builtIn.price?.(`${provider}:${model}`);
  const short = parseModelName(model)?.provider === provider ? builtIn.price?.(model) : undefined;
  return qualified ?? short ?? knownModel(name, table)?.price;
}

type Connection = ModelOptions & { readonly baseUrl: string };

export class Providers {
  readonly #options: ProviderOptions;
  readonly #models: CredentialCache<Model>;

  constructor(options: ProviderOptions) {
    this.#options = options;
    this.#models = new CredentialCache(options.vault, (tenantId, record) =>
      this.#make(record, this.connection(tenantId, record)),
    );
  }

  of(tenantId: string): ModelRegistry {
    const { builtIn, table = {} } = this.#options;
    return {
      resolve: (name) => builtIn.resolve(name) ?? this.#remote(tenantId, name),
      list: () => builtIn.list(),
      price: (name) => priceOf(builtIn, name, table),
      missing: async (name) => {
        const named = builtIn.resolve(name) === undefined ? parseModelName(name) : undefined;
        if (named === undefined) return undefined;
        const credential = await this.#options.vault.read(tenantId, named.provider);
        return credential === undefined ? named.provider : undefined;
      },
    };
  }

  #remote(tenantId: string, name: string): Model | undefined {
    const named = parseModelName(name);
    if (named === undefined) return undefined;
    const models = this.#models;
    return {
      ...defined({ contextTokens: knownModel(name, this.#options.table)?.contextTokens }),
      async *stream(request, signal) {
        const model = await models.get(tenantId, named.provider);
        if (model === undefined) throw noCredential(named.provider);
        yield* model.stream({ ...request, model: named.model }, signal);
      },
    };
  }

  /** `openai` uses the Responses API, unless the tenant has set another base URL. */
  #make({ provider, baseUrl }: CredentialRecord, options: Connection): Model {
    if (provider === 'anthropic') return createAnthropicModel(options);
    if (provider === 'google') return createGoogleModel(options);
    if (provider === 'openai' && baseUrl === null) return createResponsesModel(options);
    return createChatCompletionsModel(options);
  }

  /** The base URL and key of a tenant's provider. Throws if the URL is refused. */
  connection(tenantId: string, record: CredentialRecord): Connection {
    const { guards, vault, timeouts = {}, endpoints = {} } = this.#options;
    const { provider } = record;
    const own = isKnownProvider(provider) ? (endpoints[provider] ?? knownBaseUrls[provider]) : null;
    const baseUrl = record.baseUrl ?? own;
    if (baseUrl === null) throw noCredential(provider);
    const url = new URL(baseUrl);
    const isOperators = record.baseUrl === null || vault.isFromEnvironment(record);
    const guard = isOperators ? guards.operator : guards.of(tenantId);
    guard.checkUrl(url);
    const apiKey = vault.secretOf(tenantId, record);
    return { apiKey, baseUrl, agent: guard.agentFor(url), timeouts };
  }
}

export function isKnownProvider(provider: string): provider is KnownProvider {
  return Object.hasOwn(knownBaseUrls, provider);
}

/** Throws `unknown_model` or `credential_missing`. */
export async function requireModel(models: ModelRegistry, model: string): Promise<void> {
  if (models.resolve(model) === undefined) {
    throw new RelayError('unknown_model', `No provider offers the model ${model}`, {
      details: [{ path: 'model', message: 'Unknown model' }],
    });
  }
  const provider = await models.missing?.(model);
  if (provider !== undefined) throw noCredential(provider);
}

function noCredential(provider: string): RelayError {
  const variable = isKnownProvider(provider) ? keyVariableOf(provider) : undefined;
  const other = variable === undefined ? '' : `, or in development set ${variable}`;
  return new RelayError(
    'credential_missing',
    `There is no credential for the provider ${provider}. ` +
      `Store its key with "npx relay credentials set ${provider}"${other}`,
  );
}
