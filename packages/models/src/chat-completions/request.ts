import type { ModelRequest, ToolSpec } from '@relay/core';
import {
  attachmentOf,
  type ContentPart,
  type JsonSchema,
  type Message,
  type MessageContent,
  type ProviderData,
  RelayError,
} from '@relay/protocol';
import {
  attachmentContent,
  omittedAttachment,
  SafeNames,
  isStrictSchema,
} from '../provider-request.ts';

export interface RequestOptions {
  readonly names?: SafeNames;
  /** The output schema is sent as an instruction only. */
  readonly omitResponseFormat?: boolean | undefined;
  /** Earlier reasoning is not sent back. */
  readonly omitReasoning?: boolean | undefined;
  /**
   * `max_completion_tokens` instead of `max_tokens`. Default: for the models of OpenAI that reason, which
   * take nothing else; many other servers know only `max_tokens`.
   */
  readonly limitCompletion?: boolean | undefined;
  /** The level `none` is not sent: a model that does not reason need not know the field. */
  readonly omitNoReasoning?: boolean | undefined;
}

/** With or without the name of a maker, such as `openai/gpt-6-sol`. */
const reasoningModels = /(?:^|\/)(?:o[134](?![0-9])|gpt-(?:[5-9]|[1-9][0-9])(?![0-9]))/;

export function chatRequestBody(
  request: ModelRequest,
  model: string,
  options: RequestOptions = {},
): string {
  const { names = new SafeNames([]), omitResponseFormat, omitReasoning } = options;
  const { messages, tools, outputSchema, maxOutputTokens } = request;
  const { limitCompletion = reasoningModels.test(model), omitNoReasoning } = options;
  const maxTokens = limitCompletion ? 'max_completion_tokens' : 'max_tokens';
  const isOmitted = omitNoReasoning === true && request.reasoning === 'none';
  const reasoning = isOmitted ? undefined : request.reasoning;
  const reasoningAt = reasoningIn(omitReasoning === true ? [] : messages, model);
  return JSON.stringify({
    model,
    messages: [
      ...(outputSchema === undefined ? [] : [schemaInstruction(outputSchema)]),
      ...messages.flatMap((message, at) => apiMessage(message, names, reasoningAt(at))),
    ],
    stream: true,
    stream_options: { include_usage: true },
    // Most servers refuse an empty list.
    ...(tools.length === 0 ? {} : { tools: tools.map((tool) => apiTool(tool, names)) }),
    ...(outputSchema === undefined || omitResponseFormat === true
      ? {}
      : { response_format: responseFormat(outputSchema) }),
    ...(reasoning === undefined ? {} : { reasoning_effort: reasoning }),
    ...(maxOutputTokens === undefined ? {} : { [maxTokens]: maxOutputTokens }),
  });
}

/** Some servers ignore `response_format`, so the schema is also in the prompt. */
function schemaInstruction(schema: JsonSchema) {
  const content =
    'Your last answer must be a JSON value alone, without other text or a code fence, ' +
    `that matches this JSON Schema: ${JSON.stringify(schema)}`;
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

/** Relay's messages are those of the API, except for attachments and what some servers refuse. */
function apiMessage(message: Message, names: SafeNames, reasoning: string): readonly object[] {
  switch (message.role) {
    case 'user':
      return [{ role: 'user', content: apiContent(message.content) }];
    case 'system':
      return [{ role: 'system', content: onlyText(message.content) }];
    case 'tool':
      return [{ role: 'tool', tool_call_id: message.tool_call_id, content: resultText(message) }];
    case 'assistant': {
      const { content, tool_calls: calls = [] } = message;
      const text = onlyText(content ?? '');
      // Most servers refuse an empty assistant message.
      if (calls.length === 0) return text === '' ? [] : [{ role: 'assistant', content: text }];
      const called = calls.map(({ id, type, function: { name, arguments: input } }) => ({
        id,
        type,
        function: { name: names.safe(name), arguments: input },
      }));
      return [
        {
          role: 'assistant',
          content: text === '' ? null : text,
          tool_calls: called,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
        },
      ];
    }
  }
}

/** The API has no field for an error. */
function resultText({ content, isError }: Extract<Message, { role: 'tool' }>): string {
  const text = onlyText(content);
  return isError === true ? `Error: ${text}` : text;
}

/** Where the API carries only text, the model reads what was left out. */
function onlyText(content: MessageContent): string {
  if (typeof content === 'string') return content;
  const texts = content.map((part) => {
    if (part.type === 'text') return part.text;
    const attachment = attachmentContent(part);
    if (attachment.kind === 'text') return attachment.text;
    return omittedAttachment(attachment.mediaType, attachment.filename);
  });
  return texts.join('\n');
}

function apiContent(content: string | readonly ContentPart[]) {
  return typeof content === 'string' ? content : content.map(apiPart);
}

function apiPart(part: ContentPart) {
  if (part.type === 'text') return part;
  const attachment = attachmentContent(part);
  if (attachment.kind === 'text') return { type: 'text', text: attachment.text };
  const { source, mediaType, filename } = attachment;
  const url = source.kind === 'url' ? source.url : `data:${mediaType};base64,${source.base64}`;
  if (part.type === 'image') return { type: 'image_url', image_url: { url } };
  return { type: 'file', file: { filename: filename ?? 'file', file_data: url } };
}

/** The API takes the URL of an image, but of a file only its data. */
export function checkFiles({ messages }: ModelRequest): void {
  for (const { role, content } of messages) {
    if (role !== 'user' || typeof content === 'string') continue;
    const byUrl = content.find((part) => part.type === 'file' && attachmentOf(part).kind === 'url');
    if (byUrl === undefined) continue;
    throw new RelayError(
      'invalid_request',
      'The model’s provider uses Chat Completions, which takes files only as data: set `data` and ' +
        '`mediaType` of the file instead of its `url`',
    );
  }
}

const provider = 'chat-completions';

/**
 * Reasoning that the next request must contain. DeepSeek, Kimi and others reason between tool calls and
 * refuse results of a call without its `reasoning_content`; for a finished answer they want none. So it
 * is kept with turns that call tools, and sent back to the same model until the next user message.
 */
export function reasoningData(model: string, text: string): ProviderData {
  return { provider, model: model.slice(0, 512), parts: [{ type: 'reasoning', text }] };
}

/** The reasoning of a message, if it is this model's and no user message has followed. */
function reasoningIn(messages: readonly Message[], model: string): (at: number) => string {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  return (at) => {
    const message = messages[at];
    if (message?.role !== 'assistant' || at < lastUser) return '';
    const { providerData: data } = message;
    if (data?.provider !== provider || data.model !== model.slice(0, 512)) return '';
    return data.parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('');
  };
}
