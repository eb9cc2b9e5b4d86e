import type { ModelRequest, ToolSpec } from '@relay/core';
import {
  type ContentPart,
  type JsonSchema,
  type Message,
  textOf,
  type ProviderData,
} from '@relay/protocol';
import { givenBy, SafeNames, isStrictSchema } from '../provider-request.ts';

export interface RequestOptions {
  readonly names?: SafeNames;
  /** The shape of the answer is asked for in words, not by a field of the API. */
  readonly toldOnly?: boolean | undefined;
  /** What the model thought is not handed back. */
  readonly thoughtless?: boolean | undefined;
}

/** The body of a streaming Chat Completions request. */
export function chatRequestBody(
  request: ModelRequest,
  model: string,
  options: RequestOptions = {},
): string {
  const { names = new SafeNames([]), toldOnly = false, thoughtless = false } = options;
  const { messages, tools, outputSchema, reasoning } = request;
  const thoughtAt = thoughtIn(thoughtless ? [] : messages, model);
  return JSON.stringify({
    model,
    messages: [
      ...(outputSchema === undefined ? [] : [shapeInstruction(outputSchema)]),
      ...messages.flatMap((message, at) => apiMessage(message, names, thoughtAt(at))),
    ],
    stream: true,
    stream_options: { include_usage: true },
    // An empty list is refused by most servers.
    ...(tools.length === 0 ? {} : { tools: tools.map((tool) => apiTool(tool, names)) }),
    ...(outputSchema === undefined || toldOnly
      ? {}
      : { response_format: responseFormat(outputSchema) }),
    ...(reasoning === undefined ? {} : { reasoning_effort: reasoning }),
  });
}

/** Not every server heeds `response_format`, and those that do not read it here. */
function shapeInstruction(schema: JsonSchema) {
  const content =
    'Your last answer must be a JSON value alone, without words around it or a code fence, ' +
    `that fits this JSON Schema: ${JSON.stringify(schema)}`;
  return { role: 'system', content };
}

function responseFormat(schema: JsonSchema) {
  const strict = isStrictSchema(schema);
  return { type: 'json_schema', json_schema: { name: 'answer', schema, strict } };
}

function apiTool({ name, description, inputSchema }: ToolSpec, names: SafeNames) {
  const parameters = inputSchema;
  return { type: 'function', function: { name: names.safe(name), description, parameters } };
}

/** Our messages are the API's, but for images, files, and what some servers refuse. */
function apiMessage(message: Message, names: SafeNames, thought: string): readonly object[] {
  switch (message.role) {
    case 'user':
      return [{ role: 'user', content: apiContent(message.content) }];
    case 'system':
      return [{ role: 'system', content: textOf(message.content) }];
    case 'tool':
      return [
        { role: 'tool', tool_call_id: message.tool_call_id, content: textOf(message.content) },
      ];
    case 'assistant': {
      const { content, tool_calls: calls = [] } = message;
      const text = textOf(content);
      // An assistant that said nothing is refused by most servers.
      if (calls.length === 0) return text === '' ? [] : [{ role: 'assistant', content: text }];
      const called = calls.map(({ id, type, function: { name, arguments: input } }) => ({
        id,
        type,
        function: { name: names.safe(name), arguments: input },
      }));
      const spoken = { role: 'assistant', content: text === '' ? null : text, tool_calls: called };
      return [thought === '' ? spoken : { ...spoken, reasoning_content: thought }];
    }
  }
}

function apiContent(content: string | readonly ContentPart[]) {
  return typeof content === 'string' ? content : content.map(apiPart);
}

function apiPart(part: ContentPart) {
  if (part.type === 'text') return part;
  const given = givenBy(part);
  if (given.kind === 'text') return { type: 'text', text: given.text };
  const { source, mediaType, filename } = given;
  const url = source.kind === 'url' ? source.url : `data:${mediaType};base64,${source.base64}`;
  if (part.type === 'image') return { type: 'image_url', image_url: { url } };
  const name = filename ?? 'file';
  return source.kind === 'url'
    ? { type: 'file', file: { filename: name, file_url: url } }
    : { type: 'file', file: { filename: name, file_data: url } };
}

/**
 * Thoughts that a Chat Completions server wants to see again. DeepSeek, Kimi and others think between
 * calls of tools and refuse the results of a call whose `reasoning_content` is missing; of an answer
 * that is over they want none. So it is kept with turns that call tools, and handed back to the same
 * model until the user speaks again.
 */

const provider = 'chat-completions';

export function thoughtOf(model: string, text: string): ProviderData {
  return { provider, model: model.slice(0, 512), parts: [{ type: 'reasoning', text }] };
}

/** What the message was thought with, if it is this model's and the user has not spoken since. */
export function thoughtIn(messages: readonly Message[], model: string): (at: number) => string {
  const spokenAt = messages.findLastIndex(({ role }) => role === 'user');
  return (at) => {
    const message = messages[at];
    if (message?.role !== 'assistant' || at < spokenAt) return '';
    const { providerData: data } = message;
    if (data?.provider !== provider || data.model !== model.slice(0, 512)) return '';
    return data.parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('');
  };
}
