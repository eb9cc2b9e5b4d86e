/** The providers of the AI SDK: their packages, defaults, options and metadata. */
import { type Model, type ModelRequest, ProviderFailure } from '@relay/core';
import { defined, type ReasoningEffort, reasoningEfforts } from '@relay/protocol';
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
function thinkingSettings(request: ModelRequest) {
  const { model, messages, reasoning } = request;
  const hasThinking = messages.some(
    (message) => message.role === 'assistant' && message.providerData !== undefined,
  );
  if (!hasThinking || !preservesThinking.test(model) || omitsThinking(request)) return {};
  const blockBinding = { prefixMismatchBehavior: 'drop_block' };
  // The package sets the type and the display itself only if there are no other settings.
  const isShown = reasoning !== undefined && reasoning !== 'none';
  return {
    thinking: { type: 'adaptive', ...(isShown ? { display: 'summarized' } : {}), blockBinding },
  };
}

/** The Claude models that always think: `none` is their lowest effort. */
const alwaysThinks = /^claude-(?:(?:fable|mythos)-5|opus-5-5)/;

/** A request that turns thinking off cannot have the setting above, so it goes without earlier thinking. */
function omitsThinking({ model, reasoning }: ModelRequest): boolean {
  return reasoning === 'none' && preservesThinking.test(model) && !alwaysThinks.test(model);
}

/** The Claude models whose thinking has a budget in tokens. */
const budgetsThinking = /^claude-(?:3-7|[a-z]+-4(?:-[015])?(?:-\d{8}|-latest)?$)/;
const minThinkingTokens = 1024;

/**
 * The package adds the budget of the thinking to the limit of the answer, which is to include it. So half
 * of the limit is for thinking, or nothing if that is too little for the API.
 */
function thinkingBudget({ model, reasoning = 'none', maxOutputTokens }: ModelRequest) {
  if (maxOutputTokens === undefined || reasoning === 'none' || !budgetsThinking.test(model)) {
    return undefined;
  }
  const half = Math.floor(maxOutputTokens / 2);
  return half < minThinkingTokens ? 0 : half;
}

function anthropicSettings(request: ModelRequest) {
  const budgetTokens = thinkingBudget(request);
  if (budgetTokens === undefined) return thinkingSettings(request);
  return {
    thinking: budgetTokens === 0 ? { type: 'disabled' } : { type: 'enabled', budgetTokens },
  };
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
        anthropic: { cacheControl: { type: 'ephemeral' }, ...anthropicSettings(request) },
      }),
      omitsMetadata: omitsThinking,
      maxOutputTokens: (wanted, request) => wanted - (thinkingBudget(request) ?? 0),
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
      // The package does not report it.
      responseModel: (chunk) => chunk['modelVersion'],
    },
    options,
  );
}

/** Models of OpenAI that do not reason. */
const withoutReasoning = /^(?:gpt-[34](?![0-9])|chatgpt-|gpt-5.*-chat-latest$)/;

/** The reasoning levels of models that the package does not know. */
const openaiLevels: readonly (readonly [models: RegExp, levels: readonly ReasoningEffort[]])[] = [
  [/^o\d/, ['low', 'medium', 'high']],
  [/^gpt-5-pro/, ['high']],
];

/** The nearest lower level that the model has, or else its lowest. */
function openaiLevel(model: string, wanted: ReasoningEffort): ReasoningEffort | undefined {
  const levels = openaiLevels.find(([models]) => models.test(model))?.[1];
  const rank = reasoningEfforts.indexOf(wanted);
  return levels?.findLast((level) => reasoningEfforts.indexOf(level) <= rank) ?? levels?.[0];
}

/** The API refuses less. */
const minOutputTokens = 16;

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
      maxOutputTokens: (wanted) => Math.max(minOutputTokens, wanted),
      settings({ outputSchema, model, reasoning }) {
        // The package would leave out the level without a word. Others are mapped to the nearest level.
        if ((reasoning ?? 'none') !== 'none' && withoutReasoning.test(model)) {
          const message =
            `The model ${model} does not reason: leave out \`reasoning\`, ` +
            'or set it to "none", or choose another model';
          throw new ProviderFailure(message, { retryable: false });
        }
        const level = reasoning === undefined ? undefined : openaiLevel(model, reasoning);
        return {
          openai: {
            store: false,
            ...defined({ reasoningEffort: level }),
            passThroughUnsupportedFiles: true,
            strictJsonSchema: outputSchema !== undefined && isStrictSchema(outputSchema),
          },
        };
      },
    },
    options,
  );
}
