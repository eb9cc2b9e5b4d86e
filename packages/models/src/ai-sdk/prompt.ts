/**
 * Converts messages to an AI SDK prompt. Providers differ in what they refuse, so everything that one of
 * them refuses is fixed here for all: empty messages, consecutive messages of one role, instructions
 * in the middle, and unusual characters in ids and names.
 */
import type {
  JSONValue,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import {
  defined,
  type Message,
  type MessageContent,
  textOf,
  type MessageToolCall,
  type ProviderData,
} from '@relay/protocol';
import { attachmentContent, omittedAttachment, type SafeNames } from '../provider-request.ts';

export interface PromptOptions {
  /** The `providerData` of this provider and model is sent back. */
  readonly provider: string;
  readonly model: string;
  readonly names: SafeNames;
  readonly ids: SafeNames;
  /** System messages may stand anywhere, not only at the beginning. */
  readonly systemAnywhere: boolean;
  /** The media types that the provider reads in the result of a tool. */
  readonly resultMedia: RegExp;
  /** Leaves out the `providerData` of earlier answers. */
  readonly withoutMetadata: boolean;
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
    append(prompt, convert(message, { ...options, toolNames, system }));
  }
  return prompt;
}

interface MessageOptions extends PromptOptions {
  readonly toolNames: ReadonlyMap<string, string>;
  /** Whether a system message may stay one; otherwise it becomes a user message. */
  readonly system: boolean;
}

function convert(message: Message, options: MessageOptions): LanguageModelV4Message | undefined {
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
      const output = resultOf(message, options.resultMedia);
      return { role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName, output }] };
    }
  }
}

/** Merges consecutive messages of one role. */
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
    const attachment = attachmentContent(part);
    if (attachment.kind === 'text') return [{ type: 'text', text: attachment.text }];
    const { source, mediaType, filename } = attachment;
    const data =
      source.kind === 'url'
        ? ({ type: 'url', url: new URL(source.url) } as const)
        : ({ type: 'data', data: source.base64 } as const);
    return [{ type: 'file', mediaType, data, ...defined({ filename }) }];
  });
}

type ToolMessage = Extract<Message, { role: 'tool' }>;
type ResultOutput = Extract<
  Extract<LanguageModelV4Message, { role: 'tool' }>['content'][number],
  { type: 'tool-result' }
>['output'];

/** The packages mark an error in the provider's own way: a flag, or a key of the result. */
function resultOf({ content, isError }: ToolMessage, media: RegExp): ResultOutput {
  const parts = partsOf(content).map((part) =>
    part.type === 'text' || (isError !== true && media.test(part.mediaType)) ? part : omitted(part),
  );
  const text = parts.flatMap((part) => (part.type === 'text' ? part.text : [])).join('\n');
  if (isError === true) return errorOf(text === '' ? '(no message)' : text);
  // Some providers refuse an empty result.
  const shown = text === '' ? '(no output)' : text;
  const files = parts.filter((part) => part.type === 'file');
  if (files.length === 0) return { type: 'text', value: shown };
  return { type: 'content', value: [{ type: 'text', text: shown }, ...files] };
}

function errorOf(text: string): ResultOutput {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) {
      return { type: 'error-json', value: value as JSONValue };
    }
  } catch {
    // Not JSON: it is sent as text.
  }
  return { type: 'error-text', value: text };
}

function omitted({ mediaType, filename }: LanguageModelV4FilePart): LanguageModelV4TextPart {
  return { type: 'text', text: omittedAttachment(mediaType, filename) };
}

type Assistant = Extract<Message, { role: 'assistant' }>;
type Content = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'];

function assistantContent(message: Assistant, options: PromptOptions): Content {
  const { content, tool_calls: calls = [], providerData } = message;
  const text = textOf(content);
  const hasMetadata =
    !options.withoutMetadata &&
    providerData?.provider === options.provider &&
    providerData.model === options.model;
  if (hasMetadata) return contentWithMetadata(text, calls, providerData, options);
  return [...textPart(text), ...calls.map((call) => callPart(call, options))];
}

/** In the provider's order with its metadata; text and calls that it does not mention follow. */
function contentWithMetadata(
  text: string,
  calls: readonly MessageToolCall[],
  data: ProviderData,
  options: PromptOptions,
): Content {
  const content: Content = [];
  const added = new Set<MessageToolCall>();
  let from = 0;
  for (const part of data.parts) {
    const { metadata } = part;
    const providerOptions =
      metadata === undefined ? {} : { providerOptions: metadata as SharedV4ProviderOptions };
    if (part.type === 'reasoning') {
      content.push({ type: 'reasoning', text: part.text, ...providerOptions });
    } else if (part.type === 'text') {
      const fragment = text.slice(from, from + part.chars);
      from += part.chars;
      if (fragment !== '') content.push({ type: 'text', text: fragment, ...providerOptions });
    } else {
      const call = calls[part.nth];
      if (call === undefined || added.has(call)) continue;
      added.add(call);
      content.push({ ...callPart(call, options), ...providerOptions });
    }
  }
  const rest = calls.filter((call) => !added.has(call)).map((call) => callPart(call, options));
  return [...content, ...textPart(text.slice(from)), ...rest];
}

function textPart(text: string): Content {
  return text === '' ? [] : [{ type: 'text', text }];
}

function callPart({ id, function: called }: MessageToolCall, { names, ids }: PromptOptions) {
  return {
    type: 'tool-call' as const,
    toolCallId: ids.safe(id),
    toolName: names.safe(called.name),
    input: inputOf(called.arguments),
  };
}

/** Providers accept only an object. */
function inputOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}
