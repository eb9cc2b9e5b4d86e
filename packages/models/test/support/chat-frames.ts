/** The frames of a Chat Completions stream, as a provider writes them. */

const head = {
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_700_000_000,
  model: 'scripted',
};

export function frame(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

export function deltaFrame(delta: Readonly<Record<string, unknown>>): string {
  return frame({ ...head, choices: [{ index: 0, delta, finish_reason: null }] });
}

export function textFrame(content: string): string {
  return deltaFrame({ content });
}

export function finishFrame(reason = 'stop'): string {
  return frame({ ...head, choices: [{ index: 0, delta: {}, finish_reason: reason }] });
}

export function usageFrame(inputTokens: number, outputTokens: number): string {
  const usage = { prompt_tokens: inputTokens, completion_tokens: outputTokens };
  return frame({ ...head, choices: [], usage });
}

export const doneFrame = 'data: [DONE]\n\n';

/** A whole answer in words. */
export function textStream(words: readonly string[]): string {
  const usage = usageFrame(7, words.length);
  return `${words.map(textFrame).join('')}${finishFrame()}${usage}${doneFrame}`;
}
