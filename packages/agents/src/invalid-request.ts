import { type FieldIssue, fieldIssues, RelayError } from '@relay/protocol';

/** Something handed in is not what it should be: the first thing in words, all of them as details. */
export function invalidRequest(details: readonly FieldIssue[]): RelayError {
  const [first] = details;
  return new RelayError('invalid_request', `${first?.path}: ${first?.message}`, { details });
}

type SchemaIssues = Parameters<typeof fieldIssues>[0];

/** What a schema found wrong with the value at `path`. */
export function issuesAt(path: string, issues: SchemaIssues): FieldIssue[] {
  return fieldIssues(issues).map((issue) => {
    const separator = issue.path === '' || issue.path.startsWith('[') ? '' : '.';
    return { path: `${path}${separator}${issue.path}`, message: issue.message };
  });
}
