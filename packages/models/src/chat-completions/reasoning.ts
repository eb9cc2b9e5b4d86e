/**
 * Thoughts that a Chat Completions server wants to see again. DeepSeek, Kimi and others think between
 * calls of tools and refuse the results of a call whose `reasoning_content` is missing; of an answer
 * that is over they want none. So it is kept with turns that call tools, and handed back to the same
 * model until the user speaks again.
 */
import type { Message, ProviderData } from '@relay/protocol';

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
