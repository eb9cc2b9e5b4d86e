/**
 * The shape of a last answer, where one is asked for. An answer of another shape is taken back, and
 * the model is told once what was wrong with it. That exchange is not part of the conversation.
 */
import { type FieldIssue, issuesOfAnswer, type Message } from '@relay/protocol';
import type { ModelRequest } from '../../ports/index.ts';

/** Nothing is wrong with an answer if no shape is asked for. */
export function shapeIssues(
  { outputSchema }: Pick<ModelRequest, 'outputSchema'>,
  answer: string,
): readonly FieldIssue[] {
  return outputSchema === undefined ? [] : issuesOfAnswer(outputSchema, answer);
}

export function correctionOf(answer: string, issues: readonly FieldIssue[]): readonly Message[] {
  const asked: Message = {
    role: 'user',
    content:
      `That answer does not have the shape that is needed. ${told(issues)}. ` +
      'Answer again with the JSON value alone: no words around it, no code fence.',
  };
  return answer === '' ? [asked] : [{ role: 'assistant', content: answer }, asked];
}

export function corrected(request: ModelRequest, correction: readonly Message[]): ModelRequest {
  if (correction.length === 0) return request;
  return { ...request, messages: [...request.messages, ...correction] };
}

export function shapeError(issues: readonly FieldIssue[]): string {
  return `The answer does not fit the output schema: ${told(issues)}`;
}

function told(issues: readonly FieldIssue[]): string {
  return issues
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
    .join('; ');
}
