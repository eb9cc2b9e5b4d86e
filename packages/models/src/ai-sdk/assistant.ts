/** An answer of a model, as it is shown to the model again. */
import type { LanguageModelV4Message, SharedV4ProviderOptions } from '@ai-sdk/provider';
import { type Message, type MessageToolCall, type ProviderData, textOf } from '@relay/protocol';
import type { SafeNames } from '../safe-names.ts';

type Assistant = Extract<Message, { role: 'assistant' }>;
type Content = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'];

interface Options {
  readonly provider: string;
  readonly model: string;
  readonly names: SafeNames;
  readonly ids: SafeNames;
  readonly plain: boolean;
}

export function assistantContent(message: Assistant, options: Options): Content {
  const { content, tool_calls: calls = [], providerData } = message;
  const text = textOf(content);
  const isOurs =
    !options.plain &&
    providerData?.provider === options.provider &&
    providerData.model === options.model;
  if (isOurs) return asItWas({ text, calls, data: providerData }, options);
  return [...textPart(text), ...calls.map((call) => callPart(call, options))];
}

/** With the provider's own marks, in its own order; what they leave out follows. */
function asItWas(
  said: { text: string; calls: readonly MessageToolCall[]; data: ProviderData },
  options: Options,
): Content {
  const { text, calls, data } = said;
  const content: Content = [];
  const told = new Set<MessageToolCall>();
  let from = 0;
  for (const part of data.parts) {
    const marks = marksOf(part.metadata);
    if (part.type === 'reasoning') {
      content.push({ type: 'reasoning', text: part.text, ...marks });
    } else if (part.type === 'text') {
      const piece = text.slice(from, from + part.chars);
      from += part.chars;
      if (piece !== '') content.push({ type: 'text', text: piece, ...marks });
    } else {
      const call = calls[part.nth];
      if (call === undefined || told.has(call)) continue;
      told.add(call);
      content.push({ ...callPart(call, options), ...marks });
    }
  }
  const rest = calls.filter((call) => !told.has(call)).map((call) => callPart(call, options));
  return [...content, ...textPart(text.slice(from)), ...rest];
}

function marksOf(metadata: Readonly<Record<string, unknown>> | undefined) {
  return metadata === undefined ? {} : { providerOptions: metadata as SharedV4ProviderOptions };
}

function textPart(text: string): Content {
  return text === '' ? [] : [{ type: 'text', text }];
}

function callPart({ id, function: called }: MessageToolCall, { names, ids }: Options) {
  return {
    type: 'tool-call' as const,
    toolCallId: ids.safe(id),
    toolName: names.safe(called.name),
    input: inputOf(called.arguments),
  };
}

/** Providers take an object and nothing else. */
function inputOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}
