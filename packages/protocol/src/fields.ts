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
  /** The keys that nobody knows, if that is what is wrong. */
  readonly keys?: readonly string[];
}

/** What a schema found wrong, as callers and models are told. */
export function fieldIssues(issues: readonly SchemaIssue[]): FieldIssue[] {
  return issues.flatMap(({ path, message, keys }) =>
    keys === undefined
      ? [{ path: fieldPath(path), message }]
      : keys.map((key) => ({ path: fieldPath([...path, key]), message: 'Unknown field' })),
  );
}
