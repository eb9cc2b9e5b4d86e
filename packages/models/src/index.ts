export { type ChatCompletionsOptions, createChatCompletionsModel } from './chat-completions.ts';
export { createDemoModel, type DemoModelOptions } from './demo.ts';
export { createModelRegistry, type ModelEntry } from './registry.ts';
