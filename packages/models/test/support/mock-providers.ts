/** Every provider that Relay speaks to, against one mock server over real HTTP. */
import type { LLMock } from '@copilotkit/aimock';
import type { Model } from '@relay/core';
import {
  createAnthropicModel,
  createGoogleModel,
  createResponsesModel,
} from '../../src/ai-sdk/providers.ts';
import { createChatCompletionsModel } from '../../src/chat-completions/model.ts';
import type { Timeouts } from '../../src/http/exchange.ts';

export interface MockedProvider {
  readonly name: string;
  /** The name of one of its models. */
  readonly model: string;
  /** Where the mock plays it. */
  readonly path: string;
  create(options: { apiKey: string; baseUrl: string; timeouts?: Partial<Timeouts> }): Model;
}

export const mockedProviders: readonly MockedProvider[] = [
  { name: 'responses', model: 'gpt-5', path: '/v1', create: createResponsesModel },
  { name: 'anthropic', model: 'claude-sonnet-4-5', path: '/v1', create: createAnthropicModel },
  { name: 'google', model: 'gemini-2.5-flash', path: '/v1beta', create: createGoogleModel },
  { name: 'chat-completions', model: 'gpt-4o', path: '/v1', create: createChatCompletionsModel },
];

export function baseUrlOf(mock: Pick<LLMock, 'url'>, { path }: MockedProvider): string {
  return `${mock.url}${path}`;
}
