import type { FieldIssue } from '../errors.ts';
import { type SchemaIssue, tellIssue } from './issue-words.ts';

/** A path as people write it: `items[0].name`. */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path
    .map((key, index) => {
      if (typeof key === 'number') return `[${key}]`;
      return index === 0 ? String(key) : `.${String(key)}`;
    })
    .join('');
}

/** What a schema found wrong, as callers and models are told. */
export function fieldIssues(issues: readonly SchemaIssue[]): FieldIssue[] {
  return issues.flatMap(tellIssue).map(({ path, message }) => ({ path: fieldPath(path), message }));
}
