/** Anthropic by its Messages API. What every turn repeats is read from its cache. */
import type { Model } from '@relay/core';
import { createProviderFetch } from '../http/provider-fetch.ts';
import { createSdkModel, type ProviderOptions } from './model.ts';

export function createAnthropicModel(options: ProviderOptions): Model {
  const { apiKey, baseUrl: baseURL = 'https://api.anthropic.com/v1' } = options;
  return createSdkModel(
    {
      provider: 'anthropic',
      systemAnywhere: false,
      async load() {
        const { createAnthropic } = await import('@ai-sdk/anthropic');
        const anthropic = createAnthropic({ apiKey, baseURL, fetch: createProviderFetch(options) });
        return (model) => anthropic(model);
      },
      keep: ({ signature, redactedData }) => ({ signature, redactedData }),
      settings: () => ({ anthropic: { cacheControl: { type: 'ephemeral' } } }),
    },
    options,
  );
}
