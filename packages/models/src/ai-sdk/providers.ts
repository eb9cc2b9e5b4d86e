/** The providers of the AI SDK: their packages, defaults, options and metadata. */
import { type Model, type ModelRequest, ProviderFailure } from '@relay/core';
import { createProviderFetch } from '../http/provider-fetch.ts';
import { createSdkModel } from './model.ts';
import { isStrictSchema, type ProviderOptions } from '../provider-request.ts';

const imagesAndPdf = /^(?:image\/(?:png|jpeg|gif|webp)|application\/pdf)$/i;

/** The Claude models that check what stands before each thinking block which they get back. */
const preservesThinking =
  /^claude-(?:(?:fable|mythos)-5-[1-9]|(?:opus|sonnet|haiku)-5-[5-9]|[a-z]+-(?:[6-9]|[1-9]\d)(?!\d))/;

/**
 * A handoff, a compaction, new tools or the final turn change what stands before earlier thinking. Such
 * a model would refuse the request; with this setting it drops the thinking and names what it dropped.
 */
function thinkingSettings({ model, messages, reasoning }: ModelRequest) {
  const hasThinking = messages.some(
    (message) => message.role === 'assistant' && message.providerData !== undefined,
  );
  if (!hasThinking || reasoning === 'none' || !preservesThinking.test(model)) return {};
  const blockBinding = { prefixMismatchBehavior: 'drop_block' };
  // The package sets the type and the display itself only if there are no other settings.
  const shown = reasoning === undefined ? {} : { display: 'summarized' };
  return { thinking: { type: 'adaptive', ...shown, blockBinding } };
}

/** Anthropic's Messages API, with prompt caching. */
export function createAnthropicModel(options: ProviderOptions): Model {
  const { apiKey, baseUrl: baseURL = 'https://api.anthropic.com/v1' } = options;
  return createSdkModel(
    {
      provider: 'anthropic',
      systemAnywhere: false,
      resultMedia: imagesAndPdf,
      async load() {
        const { createAnthropic } = await import('@ai-sdk/anthropic');
        const anthropic = createAnthropic({ apiKey, baseURL, fetch: createProviderFetch(options) });
        return (model) => anthropic(model);
      },
      keep: ({ signature, redactedData }) => ({ signature, redactedData }),
      settings: (request) => ({
        anthropic: { cacheControl: { type: 'ephemeral' }, ...thinkingSettings(request) },
      }),
    },
    options,
  );
}

export function createGoogleModel(options: ProviderOptions): Model {
  const { apiKey, baseUrl: baseURL = 'https://generativelanguage.googleapis.com/v1beta' } = options;
  return createSdkModel(
    {
      provider: 'google',
      systemAnywhere: false,
      resultMedia: /^(?:(?:image|audio|video|text)\/|application\/pdf$)/i,
      async load() {
        const { createGoogle } = await import('@ai-sdk/google');
        const google = createGoogle({ apiKey, baseURL, fetch: createProviderFetch(options) });
        return (model) => google(model);
      },
      keep: ({ thoughtSignature }) => ({ thoughtSignature }),
      // Reasoning is included if the request asks for it.
      settings: ({ reasoning = 'none' }) =>
        reasoning === 'none' ? {} : { google: { thinkingConfig: { includeThoughts: true } } },
    },
    options,
  );
}

/** Models of OpenAI that do not reason. */
const withoutReasoning = /^(?:gpt-[34](?![0-9])|chatgpt-|gpt-5.*-chat-latest$)/;

/** OpenAI's Responses API. Nothing is stored there: the state is in the journal. */
export function createResponsesModel(options: ProviderOptions): Model {
  const { apiKey, baseUrl: baseURL = 'https://api.openai.com/v1' } = options;
  return createSdkModel(
    {
      provider: 'openai',
      systemAnywhere: true,
      resultMedia: imagesAndPdf,
      async load() {
        const { createOpenAI } = await import('@ai-sdk/openai');
        const openai = createOpenAI({ apiKey, baseURL, fetch: createProviderFetch(options) });
        return (model) => openai.responses(model);
      },
      // OpenAI stores no items, so ids are useless, except with the encrypted content of reasoning.
      keep({ itemId, reasoningEncryptedContent, phase }, part) {
        return part === 'reasoning' ? { itemId, reasoningEncryptedContent } : { phase };
      },
      settings({ outputSchema, model, reasoning = 'none' }) {
        // The package would leave out the level without a word. Others are mapped to the nearest level.
        if (reasoning !== 'none' && withoutReasoning.test(model)) {
          const message = `The model ${model} does not take reasoning "${reasoning}": leave it out`;
          throw new ProviderFailure(message, { retryable: false });
        }
        return {
          openai: {
            store: false,
            passThroughUnsupportedFiles: true,
            strictJsonSchema: outputSchema !== undefined && isStrictSchema(outputSchema),
          },
        };
      },
    },
    options,
  );
}
