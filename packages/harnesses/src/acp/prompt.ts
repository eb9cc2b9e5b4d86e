/** Messages as an agent reads them: each with a line before it that says who sent it, and its text unchanged. */
import type { ContentBlock } from '@agentclientprotocol/sdk';
import { channelFor, contentOf, type HarnessMessage, messagesOf } from '@relay/core';
import { defined, type MessageContent } from '@relay/protocol';

export interface PromptedMessage {
  readonly message: HarnessMessage;
  /** It may have reached the agent before. */
  readonly isRepeated: boolean;
}

/** `notes`: what Relay has to say, such as why a call was denied. */
export function promptOf(
  notes: readonly string[],
  messages: readonly PromptedMessage[],
  handle: string,
): ContentBlock[] {
  return [
    ...notes.map((note): ContentBlock => ({ type: 'text', text: note })),
    ...messages.flatMap((message) => blocksOf(message, handle)),
  ];
}

function blocksOf({ message, isRepeated }: PromptedMessage, handle: string): ContentBlock[] {
  const { id: messageId, from } = message;
  const channel = channelFor(message, handle);
  const content = contentOf(message);
  const read = messagesOf({ messageId, from, content, ...defined({ channel }) });
  const again = isRepeated ? ' It is sent again: you may have read it before an interruption.' : '';
  return read.flatMap(({ role, content: part }) => {
    const blocks = contentBlocks(part ?? '');
    return role === 'system'
      ? blocks.map((block) =>
          block.type === 'text' ? { ...block, text: `${block.text}${again}` } : block,
        )
      : blocks;
  });
}

function contentBlocks(content: MessageContent): ContentBlock[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return content.map((part): ContentBlock => {
    if (part.type === 'text') return { type: 'text', text: part.text };
    const { data, mediaType = 'application/octet-stream', url = '' } = part;
    if (data === undefined) return { type: 'resource_link', name: part.type, uri: url };
    return { type: 'image', data, mimeType: mediaType };
  });
}

const maxReasonChars = 2_000;

export function denialNote(tool: string, input: unknown, reason: string): string {
  const call = JSON.stringify(input) ?? '';
  const shown = call.length > 500 ? `${call.slice(0, 500)}…` : call;
  return `Relay denied the call of ${tool} ${shown}. Reason: ${reason.slice(0, maxReasonChars)}`;
}
