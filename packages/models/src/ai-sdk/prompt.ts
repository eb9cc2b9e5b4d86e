/**
 * Our messages as a prompt of the AI SDK's providers. They differ in what they refuse, so everything
 * that one of them refuses is put right here for all: empty messages, several of one role in a row,
 * instructions in the middle, ids and names with other characters.
 */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import {
  type Message,
  type MessageContent,
  textOf,
  type MessageToolCall,
  type ProviderData,
} from '@relay/protocol';
import { givenBy, type SafeNames } from '../provider-request.ts';

export interface PromptOptions {
  /** Whose `providerData` is handed back, and of which model. */
  readonly provider: string;
  readonly model: string;
  readonly names: SafeNames;
  readonly ids: SafeNames;
  /** Instructions may stand anywhere, not only at the beginning. */
  readonly systemAnywhere: boolean;
  /** Without what a provider had attached to earlier answers. */
  readonly plain: boolean;
}

export function promptOf(
  messages: readonly Message[],
  options: PromptOptions,
): LanguageModelV4Prompt {
  const toolNames = new Map(
    messages.flatMap((message) =>
      message.role === 'assistant'
        ? (message.tool_calls ?? []).map((call) => [call.id, call.function.name] as const)
        : [],
    ),
  );
  const prompt: LanguageModelV4Message[] = [];
  let leading = true;
  for (const message of messages) {
    leading &&= message.role === 'system';
    const system = message.role === 'system' && (leading || options.systemAnywhere);
    append(prompt, converted(message, { ...options, toolNames, system }));
  }
  return prompt;
}

interface Converting extends PromptOptions {
  readonly toolNames: ReadonlyMap<string, string>;
  /** An instruction stays one; otherwise it is said as by the user. */
  readonly system: boolean;
}

function converted(message: Message, options: Converting): LanguageModelV4Message | undefined {
  switch (message.role) {
    case 'system': {
      const text = textOf(message.content);
      if (text.trim() === '') return undefined;
      if (options.system) return { role: 'system', content: text };
      return { role: 'user', content: [{ type: 'text', text: `<system>\n${text}\n</system>` }] };
    }
    case 'user': {
      const content = partsOf(message.content);
      return content.length === 0 ? undefined : { role: 'user', content };
    }
    case 'assistant': {
      const content = assistantContent(message, options);
      return content.length === 0 ? undefined : { role: 'assistant', content };
    }
    case 'tool': {
      const toolName = options.names.safe(options.toolNames.get(message.tool_call_id) ?? 'tool');
      const toolCallId = options.ids.safe(message.tool_call_id);
      const output = resultOf(message.content);
      return { role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName, output }] };
    }
  }
}

/** What the same side says in a row is one message. */
function append(
  prompt: LanguageModelV4Message[],
  message: LanguageModelV4Message | undefined,
): void {
  const last = prompt.at(-1);
  if (message === undefined) return;
  if (last?.role === 'user' && message.role === 'user') {
    prompt[prompt.length - 1] = { ...last, content: [...last.content, ...message.content] };
  } else if (last?.role === 'assistant' && message.role === 'assistant') {
    prompt[prompt.length - 1] = { ...last, content: [...last.content, ...message.content] };
  } else if (last?.role === 'tool' && message.role === 'tool') {
    prompt[prompt.length - 1] = { ...last, content: [...last.content, ...message.content] };
  } else {
    prompt.push(message);
  }
}

function partsOf(content: MessageContent): (LanguageModelV4TextPart | LanguageModelV4FilePart)[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return content.flatMap((part): (LanguageModelV4TextPart | LanguageModelV4FilePart)[] => {
    if (part.type === 'text') return part.text === '' ? [] : [part];
    const given = givenBy(part);
    if (given.kind === 'text') return [{ type: 'text', text: given.text }];
    const { source, mediaType, filename } = given;
    const data =
      source.kind === 'url'
        ? ({ type: 'url', url: new URL(source.url) } as const)
        : ({ type: 'data', data: source.base64 } as const);
    return [{ type: 'file', mediaType, data, ...(filename === undefined ? {} : { filename }) }];
  });
}

function resultOf(content: MessageContent) {
  const text = textOf(content);
  const hasFiles = typeof content !== 'string' && content.some(({ type }) => type !== 'text');
  if (hasFiles) return { type: 'content' as const, value: partsOf(content) };
  // Some providers refuse a result that is nothing at all.
  return { type: 'text' as const, value: text === '' ? '(no output)' : text };
}

/** An answer of a model, as it is shown to the model again. */

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
