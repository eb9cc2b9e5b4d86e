/** Anthropic by its Messages API. What every turn repeats is read from its cache. */
import type { Model } from '@relay/core';
import { createProviderFetch } from '../http/provider-fetch.ts';
import { createSdkModel, type ProviderOptions } from './model.ts';
import { isStrictSchema } from '../provider-request.ts';

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

/** Google by its Gemini API. */

export function createGoogleModel(options: ProviderOptions): Model {
  const { apiKey, baseUrl: baseURL = 'https://generativelanguage.googleapis.com/v1beta' } = options;
  return createSdkModel(
    {
      provider: 'google',
      systemAnywhere: false,
      async load() {
        const { createGoogle } = await import('@ai-sdk/google');
        const google = createGoogle({ apiKey, baseURL, fetch: createProviderFetch(options) });
        return (model) => google(model);
      },
      keep: ({ thoughtSignature }) => ({ thoughtSignature }),
      // Thoughts are shown to whoever asks for thinking.
      settings: ({ reasoning = 'none' }) =>
        reasoning === 'none' ? {} : { google: { thinkingConfig: { includeThoughts: true } } },
    },
    options,
  );
}

/** OpenAI by its Responses API. Nothing is stored there: what has to be remembered is in our journal. */

export function createResponsesModel(options: ProviderOptions): Model {
  const { apiKey, baseUrl: baseURL = 'https://api.openai.com/v1' } = options;
  return createSdkModel(
    {
      provider: 'openai',
      systemAnywhere: true,
      async load() {
        const { createOpenAI } = await import('@ai-sdk/openai');
        const openai = createOpenAI({ apiKey, baseURL, fetch: createProviderFetch(options) });
        return (model) => openai.responses(model);
      },
      // An item that OpenAI does not keep cannot be found by its id; reasoning is found by its content.
      keep({ itemId, reasoningEncryptedContent, phase }, part) {
        return part === 'reasoning' ? { itemId, reasoningEncryptedContent } : { phase };
      },
      settings: ({ outputSchema }) => ({
        openai: {
          store: false,
          passThroughUnsupportedFiles: true,
          strictJsonSchema: outputSchema !== undefined && isStrictSchema(outputSchema),
        },
      }),
    },
    options,
  );
}
