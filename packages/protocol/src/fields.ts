import type { FieldIssue } from './errors.ts';

/** A path as people write it: `items[0].name`. */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path
    .map((key, index) => {
      if (typeof key === 'number') return `[${key}]`;
      return index === 0 ? String(key) : `.${String(key)}`;
    })
    .join('');
}

interface SchemaIssue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** What a schema found wrong, as callers and models are told. */
export function fieldIssues(issues: readonly SchemaIssue[]): FieldIssue[] {
  return issues.map(({ path, message }) => ({ path: fieldPath(path), message }));
}
