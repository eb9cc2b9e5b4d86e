export { type ChatCompletionsOptions, createChatCompletionsModel } from './chat-completions.ts';
export { createDemoModel, type DemoModelOptions } from './demo.ts';
export { type ModelName, parseModelName } from './model-name.ts';
export { createOutboundGuard, type OutboundGuard, parseNetwork } from './outbound.ts';
export { createModelRegistry, type ModelEntry, withPrices } from './registry.ts';
