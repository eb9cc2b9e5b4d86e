/** A session declares exactly what it implements: any other is refused when it is created or attached. */
import type { HarnessSession, LifecycleMethods } from '@relay/core';
import {
  capabilitiesSchema,
  fieldIssues,
  type FieldIssue,
  identitySchema,
  issueMessage,
  RelayError,
} from '@relay/protocol';

const operations = [
  'release',
  'pause',
  'resume',
  'fork',
  'snapshot',
] as const satisfies readonly (keyof LifecycleMethods)[];

/**
 * Throws `harness_failed` with the invalid fields, or `capability_missing` with the path of what is declared
 * and not implemented (`asked: true`), or implemented and not declared (`offered: true`).
 */
export function checkSession(harness: string, handle: string, session: HarnessSession): void {
  const issues = issuesOf(handle, session);
  if (issues.length > 0) {
    const [first] = issues;
    throw new RelayError(
      'harness_failed',
      `The harness ${harness} returned an invalid session: ${first?.path}: ${first?.message}`,
      { details: issues },
    );
  }
  const { lifecycle } = session.capabilities;
  for (const operation of operations) {
    const asked = lifecycle[operation] === true;
    const offered = typeof session[operation] === 'function';
    if (asked === offered) continue;
    const path = `lifecycle.${operation}` as const;
    throw new RelayError(
      'capability_missing',
      asked
        ? `The harness ${harness} returned a session that declares ${path} and has no ${operation}()`
        : `The harness ${harness} returned a session that has ${operation}() and does not declare ${path}`,
      { capability: { path, asked, offered } },
    );
  }
}

function issuesOf(handle: string, session: HarnessSession): FieldIssue[] {
  if (typeof session !== 'object' || session === null) {
    return [{ path: '', message: 'Must be an object' }];
  }
  const { identity, capabilities } = session;
  const issues = [
    ...schemaIssues('identity', identitySchema.safeParse(identity, { error: issueMessage })),
    ...schemaIssues(
      'capabilities',
      capabilitiesSchema.safeParse(capabilities, { error: issueMessage }),
    ),
  ];
  if (issues.length === 0 && identity.handle !== handle) {
    issues.push({ path: 'identity.handle', message: `Must be ${handle}, as requested` });
  }
  for (const name of ['receiveMessage', 'onEvent'] as const) {
    if (typeof session[name] !== 'function') {
      issues.push({ path: name, message: 'Must be a function' });
    }
  }
  return issues;
}

type Parsed =
  | ReturnType<typeof identitySchema.safeParse>
  | ReturnType<typeof capabilitiesSchema.safeParse>;

function schemaIssues(field: string, { error }: Parsed): FieldIssue[] {
  return fieldIssues(error?.issues ?? []).map(({ path, message }) => ({
    path: path === '' ? field : `${field}.${path}`,
    message,
  }));
}
