/** Messages as an agent reads them: each with a line before it that says who sent it, and its text unchanged. */
import { randomBytes } from 'node:crypto';
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

/**
 * All of it is one user message for the agent. So the end of each message is marked by a word that its sender
 * cannot know: otherwise a text could go on as if another sender had written the rest.
 */
function blocksOf({ message, isRepeated }: PromptedMessage, handle: string): ContentBlock[] {
  const { id: messageId, from } = message;
  const channel = channelFor(message, handle);
  const content = contentOf(message);
  const mark = randomBytes(6).toString('hex');
  const ends = ` It ends with the line "end of message ${mark}".`;
  const again = isRepeated ? ' It is sent again: you may have read it before an interruption.' : '';
  const read = messagesOf({ messageId, from, content, ...defined({ channel }) });
  return [
    ...read.flatMap(({ role, content: part }): ContentBlock[] =>
      role === 'system' && typeof part === 'string'
        ? [{ type: 'text', text: `${part}${again}${ends}` }]
        : contentBlocks(part ?? ''),
    ),
    { type: 'text', text: `end of message ${mark}` },
  ];
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
