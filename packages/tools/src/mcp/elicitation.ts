/** A server that asks for input during a call: a question to a person, and their answer to the server. */
import type { ElicitResult } from '@modelcontextprotocol/client';
import type { ToolContext } from '@relay/core';
import { RelayError } from '@relay/protocol';

const maxPromptChars = 4_000;
/** A server could otherwise ask for ever. */
export const maxQuestions = 20;

export interface Elicitation {
  readonly server: string;
  /** What the server sent; nothing about it is known. */
  readonly params: unknown;
  readonly context: ToolContext;
  /** Nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** Throws if the server asks in a way that no person could answer. */
export async function elicit(elicitation: Elicitation): Promise<ElicitResult> {
  const { context, signal } = elicitation;
  const question = questionIn(elicitation);
  try {
    const asked = context.ask(question);
    const answer = await Promise.race([asked, aborted(signal)]);
    if (answer === gone) return { action: 'cancel' };
    return { action: 'accept', content: answer as NonNullable<ElicitResult['content']> };
  } catch (error) {
    if (!(error instanceof RelayError) || error.code !== 'question_declined') throw error;
    return { action: error.cause === 'declined' ? 'decline' : 'cancel' };
  }
}

const gone = Symbol('gone');

function aborted(signal: AbortSignal): Promise<typeof gone> {
  if (signal.aborted) return Promise.resolve(gone);
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(gone), { once: true });
  });
}

function questionIn({ server, params }: Elicitation) {
  const { message, mode = 'form', requestedSchema } = (params ?? {}) as Record<string, unknown>;
  if (mode !== 'form' || typeof requestedSchema !== 'object' || requestedSchema === null) {
    throw new RelayError('invalid_request', `${server} asks in a way that nobody can answer here`);
  }
  const { $schema: _, ...schema } = requestedSchema as Record<string, unknown>;
  const said = typeof message === 'string' ? message.trim() : '';
  const prompt = said === '' ? `${server} asks for input` : said;
  return {
    prompt: prompt.length > maxPromptChars ? `${prompt.slice(0, maxPromptChars)} …` : prompt,
    schema,
  };
}
