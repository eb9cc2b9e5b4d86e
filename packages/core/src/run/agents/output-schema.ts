/**
 * The output schema of a final answer. An answer that does not fit is discarded, and the model is asked
 * once to correct it. That exchange is not part of the conversation.
 */
import { type FieldIssue, issuesOfAnswer, type JsonSchema, type Message } from '@relay/protocol';

export function outputIssues(
  schema: JsonSchema | undefined,
  answer: string,
): readonly FieldIssue[] {
  return schema === undefined ? [] : issuesOfAnswer(schema, answer);
}

/** The rejected answer and the request to correct it. */
export function correctionMessages(
  answer: string,
  issues: readonly FieldIssue[],
): readonly Message[] {
  const request: Message = {
    role: 'user',
    content:
      `Your answer does not match the required JSON Schema: ${textOfIssues(issues)}. ` +
      'Reply with only the JSON value, without other text or a code fence.',
  };
  return answer === '' ? [request] : [{ role: 'assistant', content: answer }, request];
}

export function outputSchemaError(issues: readonly FieldIssue[]): string {
  return `The answer does not match the output schema: ${textOfIssues(issues)}`;
}

function textOfIssues(issues: readonly FieldIssue[]): string {
  return issues
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
    .join('; ');
}
