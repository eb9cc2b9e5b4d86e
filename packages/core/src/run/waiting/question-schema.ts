/** The answer to a question has a shape: a JSON schema, which is kept with the question. */
import { canonicalJson, RelayError, issuesOfValue, problemWith } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type { Question } from '../../ports/index.ts';

export function checkSchema(schema: Question['schema']): void {
  const problem = problemWith(schema);
  if (problem === undefined) return;
  throw new RelayError('invalid_request', `The schema of the question is of no use: ${problem}`);
}

/** Throws `invalid_request` with the path of each field of the answer that does not fit. */
export function checkAnswer(schema: Question['schema'], input: unknown): void {
  const details = issuesOfValue(schema, input).map(({ path, message }) => ({
    path: path === '' ? 'input' : `input${path.startsWith('[') ? '' : '.'}${path}`,
    message,
  }));
  const [first] = details;
  if (first === undefined) return;
  throw new RelayError('invalid_request', `${first.path}: ${first.message}`, { details });
}

export function digestOfQuestion(engine: Pick<Engine, 'digest'>, question: Question): string {
  const { prompt, schema } = question;
  return engine.digest(canonicalJson({ prompt, schema }));
}
