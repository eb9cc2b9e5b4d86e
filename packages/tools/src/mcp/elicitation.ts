/** Elicitation: a server requests input during a call, and a person answers. */
import type { ElicitResult } from '@modelcontextprotocol/client';
import type { ToolContext } from '@relay/core';
import { RelayError } from '@relay/protocol';

const maxPromptChars = 4_000;
/** Bounds a server that would ask without limit. */
export const maxQuestions = 20;

/** `params` are as the server sent them. Throws if the request is not supported. */
export async function elicit(
  server: string,
  params: unknown,
  context: ToolContext,
  signal: AbortSignal,
): Promise<ElicitResult> {
  const question = questionIn(server, params);
  try {
    const asked = context.ask(question);
    const answer = await Promise.race([asked, aborted(signal)]);
    if (answer === canceled) return { action: 'cancel' };
    return { action: 'accept', content: answer as NonNullable<ElicitResult['content']> };
  } catch (error) {
    if (!(error instanceof RelayError) || error.code !== 'question_declined') throw error;
    return { action: error.cause === 'declined' ? 'decline' : 'cancel' };
  }
}

const canceled = Symbol('canceled');

function aborted(signal: AbortSignal): Promise<typeof canceled> {
  if (signal.aborted) return Promise.resolve(canceled);
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(canceled), { once: true });
  });
}

function questionIn(server: string, params: unknown) {
  const { message, mode = 'form', requestedSchema } = (params ?? {}) as Record<string, unknown>;
  if (mode !== 'form' || typeof requestedSchema !== 'object' || requestedSchema === null) {
    throw new RelayError(
      'invalid_request',
      `${server} requests input in a form that is not supported`,
    );
  }
  const { $schema: _, ...schema } = requestedSchema as Record<string, unknown>;
  const text = typeof message === 'string' ? message.trim() : '';
  const prompt = text === '' ? `${server} requests input` : text;
  return {
    prompt: prompt.length > maxPromptChars ? `${prompt.slice(0, maxPromptChars)} …` : prompt,
    schema,
  };
}
