/** Estimates of token counts; only the provider knows the exact ones. */
import type { ContentPart, Message } from '@relay/protocol';
import type { ModelRequest } from '../../ports/index.ts';

const bytesPerToken = 4;
/** For the role and the delimiters of a message. */
const messageOverhead = 4;
/** What providers count for an image of ordinary size. */
const imageTokens = 1_000;
/** A page of a document is about this many characters in base64 and counts like an image. */
const charsPerPage = 60_000;

/** Messages are immutable, so each is counted once. */
const counted = new WeakMap<Message, number>();

export function tokensIn(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + tokensOfMessage(message), 0);
}

export function tokensOfRequest({ messages, tools }: ModelRequest): number {
  const described = tools.length === 0 ? 0 : tokensOfText(JSON.stringify(tools));
  return tokensIn(messages) + described;
}

export function tokensOfText(text: string): number {
  return Math.ceil(bytesOf(text) / bytesPerToken);
}

function tokensOfMessage(message: Message): number {
  const before = counted.get(message);
  if (before !== undefined) return before;
  const { content } = message;
  const contentTokens =
    typeof content === 'string' || content === null
      ? tokensOfText(content ?? '')
      : content.reduce((sum, part) => sum + tokensOfPart(part), 0);
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : [];
  const callTokens = calls.length === 0 ? 0 : tokensOfText(JSON.stringify(calls));
  const tokens = messageOverhead + contentTokens + callTokens;
  counted.set(message, tokens);
  return tokens;
}

function tokensOfPart(part: ContentPart): number {
  if (part.type === 'text') return tokensOfText(part.text);
  const chars = (part.data ?? part.url ?? '').length;
  return part.type === 'image' ? imageTokens : imageTokens * Math.ceil(chars / charsPerPage);
}

/** UTF-8 bytes: outside the Latin script, tokens are closer to bytes than to characters. */
function bytesOf(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return bytes;
}
