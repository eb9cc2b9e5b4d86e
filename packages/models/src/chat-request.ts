import type { ModelRequest, ToolSpec } from '@relay/core';
import { type ContentPart, type Message, textOf } from '@relay/protocol';

/** The body of a streaming Chat Completions request. */
export function chatRequestBody(request: ModelRequest, model: string): string {
  const { messages, tools } = request;
  return JSON.stringify({
    model,
    messages: messages.map(apiMessage),
    stream: true,
    stream_options: { include_usage: true },
    // An empty list is refused by most servers.
    ...(tools.length === 0 ? {} : { tools: tools.map(apiTool) }),
  });
}

function apiTool({ name, description, inputSchema }: ToolSpec) {
  return { type: 'function', function: { name, description, parameters: inputSchema } };
}

/** Our messages are the API's, but for images and for what some servers refuse. */
function apiMessage(message: Message) {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: apiContent(message.content) };
    case 'system':
      return { role: 'system', content: textOf(message.content) };
    case 'tool':
      return {
        role: 'tool',
        tool_call_id: message.tool_call_id,
        content: textOf(message.content),
      };
    case 'assistant': {
      const { content, tool_calls: calls = [] } = message;
      const text = textOf(content);
      if (calls.length === 0) return { role: 'assistant', content: text };
      return { role: 'assistant', content: text === '' ? null : text, tool_calls: calls };
    }
  }
}

function apiContent(content: string | readonly ContentPart[]) {
  return typeof content === 'string' ? content : content.map(apiPart);
}

function apiPart(part: ContentPart) {
  if (part.type === 'text') return part;
  return { type: 'image_url', image_url: { url: `data:${part.mediaType};base64,${part.data}` } };
}
