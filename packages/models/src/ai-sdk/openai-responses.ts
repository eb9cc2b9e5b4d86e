/** OpenAI by its Responses API. Nothing is stored there: what has to be remembered is in our journal. */
import type { Model } from '@relay/core';
import { createProviderFetch } from '../http/provider-fetch.ts';
import { createSdkModel, type ProviderOptions } from './model.ts';
import { isStrictSchema } from '../strict-schema.ts';

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
