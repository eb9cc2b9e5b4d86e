/** Validates what a program passes in. All functions throw `invalid_request` with field paths. */
import type { DecisionInput } from '@relay/core';
import {
  type ApprovalKind,
  defined,
  type FieldIssue,
  fieldIssues,
  issuesOfValue,
  type Message,
  issueMessage,
  messageSchema,
  type OutcomeAnswer,
  outcomeAnswers,
  RelayError,
} from '@relay/protocol';
import type { RelayResponse } from './events.ts';

/** The message names the first issue; the details have all of them. */
export function invalidRequest(details: readonly FieldIssue[]): RelayError {
  const [first] = details;
  return new RelayError('invalid_request', `${first?.path}: ${first?.message}`, { details });
}

/** The issues that a schema found in the value at `path`. */
export function issuesAt(path: string, issues: Parameters<typeof fieldIssues>[0]): FieldIssue[] {
  return fieldIssues(issues).map((issue) => {
    const separator = issue.path === '' || issue.path.startsWith('[') ? '' : '.';
    return { path: `${path}${separator}${issue.path}`, message: issue.message };
  });
}

/** A message, also where TypeScript has widened its role to a string. */
export type MessageInput = Message | { readonly role: string; readonly content: string };

export function readMessages(messages: readonly MessageInput[]): Message[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalidRequest([{ path: 'messages', message: 'At least one message is required' }]);
  }
  return messages.map((message: MessageInput, index) => {
    const parsed = messageSchema.safeParse(message, { error: issueMessage });
    if (parsed.success) return parsed.data;
    throw invalidRequest(issuesAt(`messages[${index}]`, parsed.error.issues));
  });
}

export type Decision = Omit<DecisionInput, 'approvalId' | 'by' | 'terms'>;

/**
 * Only `approved: true` approves. An unknown field is rejected rather than ignored: with other
 * arguments, the call would run as it was shown.
 */
export function readResponse(response: RelayResponse, kind: ApprovalKind = 'permission'): Decision {
  const { approved, outcome, always, reason, ...rest } = (response ?? {}) as Record<
    string,
    unknown
  >;
  if (outcome === undefined && typeof approved !== 'boolean') {
    throw invalidField('approved', 'Must be true or false');
  }
  if (outcome !== undefined && (approved !== undefined || !isOutcomeAnswer(outcome))) {
    const message = `Must be one of ${outcomeAnswers.join(', ')}, without approved`;
    throw invalidField('outcome', message);
  }
  if (always !== undefined && typeof always !== 'boolean') {
    throw invalidField('always', 'Must be true or false');
  }
  if (reason !== undefined && typeof reason !== 'string') {
    throw invalidField('reason', 'Must be a string');
  }
  if (approved !== true && always === true) {
    throw invalidField('always', '`always` requires `approved: true`');
  }
  if (kind === 'question' && always === true) {
    throw invalidField('always', '`always` is not allowed for a question');
  }
  const more = kind === 'question' ? 'input' : kind === 'outcome' ? 'output' : undefined;
  for (const field of Object.keys(rest)) {
    if (field !== more) throw invalidField(field, 'Unknown field');
  }
  return {
    ...defined({ approved: approved as boolean | undefined, outcome }),
    always: always ?? false,
    reason: reason ?? null,
    ...rest,
  };
}

function isOutcomeAnswer(value: unknown): value is OutcomeAnswer {
  return outcomeAnswers.some((answer) => answer === value);
}

/** Checks the answer to a question at once, so that the caller can answer again. */
export function checkAnswer(
  schema: Readonly<Record<string, unknown>>,
  { approved, input }: Decision,
): void {
  if (approved !== true) return;
  if (input === undefined) throw invalidField('input', 'The answer is required');
  const issues = issuesOfValue(schema, input);
  if (issues.length === 0) return;
  throw invalidRequest(
    issues.map(({ path, message }) => ({
      path: path === '' ? 'input' : `input.${path}`,
      message,
    })),
  );
}

function invalidField(path: string, message: string): RelayError {
  return invalidRequest([{ path, message }]);
}
