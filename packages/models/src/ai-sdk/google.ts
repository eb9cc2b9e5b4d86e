/** Google by its Gemini API. */
import type { Model } from '@relay/core';
import { createProviderFetch } from '../http/provider-fetch.ts';
import { createSdkModel, type ProviderOptions } from './model.ts';

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
