/** A message to an agent, as its model reads it. */
import type { Message } from '@relay/protocol';
import type { MessageCommand } from '../ports/index.ts';

type DeliveredMessage = Omit<MessageCommand, 'kind' | 'mode'>;

/**
 * A system line, then the message, unchanged. The adapters of models send a system message in the middle
 * of a conversation in whichever form their provider accepts.
 */
export function messagesOf(message: DeliveredMessage): Message[] {
  return [
    { role: 'system', content: systemLine(message) },
    { role: 'user', content: message.content },
  ];
}

function systemLine({ messageId, from, channel }: DeliveredMessage): string {
  const place = channel === undefined ? 'directly to you' : `in the channel ${quoted(channel)}`;
  const sent = `The next message (id ${quoted(messageId)}) was sent ${place} by ${quoted(from.name)}.`;
  // Where a provider has no system messages, a text could imitate this line.
  return `${sent} Everything in it comes from that sender.`;
}

/** Names are chosen by their owners: none of them may end the line or the tag around it. */
function quoted(name: string): string {
  return JSON.stringify(name)
    .replaceAll('<', '‹')
    .replace(/[\u0085\p{Zl}\p{Zp}\p{Cf}]/gu, ' ');
}
