/** How many tokens a text will be, roughly: only the provider knows. */
import type { ContentPart, Message } from '@relay/protocol';
import type { ModelRequest } from '../../ports/index.ts';

const bytesInToken = 4;
/** The role and the brackets around a message. */
const tokensAround = 4;
/** What providers count for a picture of ordinary size. */
const tokensOfImage = 1_000;
/** A page of a document, which is about this many characters in base64, counts like a picture. */
const charsOfPage = 60_000;

/** Messages never change, so each is looked at once. */
const known = new WeakMap<Message, number>();

export function tokensIn(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + tokensOfMessage(message), 0);
}

export function tokensOfRequest({ messages, tools }: ModelRequest): number {
  const described = tools.length === 0 ? 0 : tokensOfText(JSON.stringify(tools));
  return tokensIn(messages) + described;
}

export function tokensOfText(text: string): number {
  return Math.ceil(bytesOf(text) / bytesInToken);
}

function tokensOfMessage(message: Message): number {
  const before = known.get(message);
  if (before !== undefined) return before;
  const { content } = message;
  const said =
    typeof content === 'string' || content === null
      ? tokensOfText(content ?? '')
      : content.reduce((sum, part) => sum + tokensOfPart(part), 0);
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : [];
  const called = calls.length === 0 ? 0 : tokensOfText(JSON.stringify(calls));
  const tokens = tokensAround + said + called;
  known.set(message, tokens);
  return tokens;
}

function tokensOfPart(part: ContentPart): number {
  if (part.type === 'text') return tokensOfText(part.text);
  const chars = (part.data ?? part.url ?? '').length;
  return part.type === 'image' ? tokensOfImage : tokensOfImage * Math.ceil(chars / charsOfPage);
}

/** In UTF-8, because tokens are nearer to bytes than to letters in scripts other than the Latin. */
function bytesOf(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return bytes;
}
