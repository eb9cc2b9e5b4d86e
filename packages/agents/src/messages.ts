import { issueMessage, type Message, messageSchema } from '@relay/protocol';
import { invalidRequest, issuesAt } from './invalid-request.ts';

/** A message, also where TypeScript has widened its role to a string. */
export type MessageInput = Message | { readonly role: string; readonly content: string };

/** Throws `invalid_request` with the path of the field. */
export function readMessages(messages: readonly MessageInput[]): Message[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalidRequest([{ path: 'messages', message: 'There must be at least one message' }]);
  }
  return messages.map((message: MessageInput, index) => {
    const parsed = messageSchema.safeParse(message, { error: issueMessage });
    if (parsed.success) return parsed.data;
    throw invalidRequest(issuesAt(`messages[${index}]`, parsed.error.issues));
  });
}
