export {
  createAnthropicModel,
  createGoogleModel,
  createResponsesModel,
} from './ai-sdk/providers.ts';
export {
  type ChatCompletionsOptions,
  createChatCompletionsModel,
} from './chat-completions/model.ts';
export { createGoogleEmbedder, createOpenAiEmbedder, type EmbedderOptions } from './embedder.ts';
export { createDemoModel, type DemoModelOptions } from './demo/demo.ts';
export { type Timeouts } from './http/exchange.ts';
export {
  type KnownModel,
  knownModel,
  knownModelsOf,
  knownPriceDate,
  type ModelTable,
} from './known-models.ts';
export {
  createOutboundGuard,
  type OutboundGuard,
  parsePrivateNetwork,
  UrlRefused,
} from './http/guard.ts';
export { createGuardedFetch, type GuardedFetch } from './http/guarded-fetch.ts';
export {
  createModelRegistry,
  type ModelEntry,
  type ModelName,
  parseModelName,
  withPrices,
} from './registry.ts';
export { type ProviderOptions } from './provider-request.ts';
