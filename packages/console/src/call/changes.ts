/** What differs between two JSON values, field by field. */
import { canonicalJson, childPath, isObject } from '@relay/protocol/wire';

export interface FieldChange {
  /** Empty for the whole value. */
  readonly path: string;
  /** Undefined: absent. */
  readonly before: unknown;
  readonly after: unknown;
}

/** Below this, values are compared as a whole. */
const maxDepth = 16;

export function changesBetween(before: unknown, after: unknown): FieldChange[] {
  return changesAt({ path: '', before, after }, 0);
}

function changesAt(change: FieldChange, depth: number): FieldChange[] {
  const { path, before, after } = change;
  if (before === undefined || after === undefined) return before === after ? [] : [change];
  if (depth < maxDepth && isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) =>
      changesAt(
        { path: childPath(path, name), before: own(before, name), after: own(after, name) },
        depth + 1,
      ),
    );
  }
  // Items have no names: after an insertion all others would seem to have changed.
  if (depth < maxDepth && isList(before) && isList(after) && before.length === after.length) {
    return before.flatMap((item, index) =>
      changesAt({ path: `${path}[${index}]`, before: item, after: after[index] }, depth + 1),
    );
  }
  return canonicalJson(before) === canonicalJson(after) ? [] : [change];
}

function own(value: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

/** The word for a JSON type. */
export function typeWord(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  switch (typeof value) {
    case 'string':
      return 'text';
    case 'object':
      return 'fields';
    default:
      return typeof value;
  }
}
