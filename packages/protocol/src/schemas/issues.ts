/** Plain-English validation messages. Pass `issueMessage` to `safeParse`, and its issues to `fieldIssues`. */
import type { z } from 'zod';
import { meantBy } from '../display/nearest.ts';
import type { FieldIssue } from '../errors.ts';

type RawIssue = z.core.$ZodRawIssue;

/** What `fieldIssues` reads of a zod issue. */
export interface SchemaIssue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly code?: string | undefined;
  readonly keys?: readonly string[];
  readonly expected?: string;
  /** Of a union: the issues of each alternative. */
  readonly errors?: readonly (readonly SchemaIssue[])[];
}

/** A path such as `items[0].name`. */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path
    .map((key, index) => {
      if (typeof key === 'number') return `[${key}]`;
      return index === 0 ? String(key) : `.${String(key)}`;
    })
    .join('');
}

/** One issue per wrong field, as callers and models see it. */
export function fieldIssues(issues: readonly SchemaIssue[]): FieldIssue[] {
  return issues.flatMap(flatten).map(({ path, message }) => ({ path: fieldPath(path), message }));
}

function flatten(issue: SchemaIssue): Pick<SchemaIssue, 'path' | 'message'>[] {
  const { path, message, code, keys = [], errors = [] } = issue;
  if (code === 'unrecognized_keys') return keys.map((key) => ({ path: [...path, key], message }));
  const candidates = errors.filter((found) => !found.some(isOtherType));
  const [only] = candidates;
  if (only === undefined || candidates.length > 1) return [{ path, message }];
  return only.flatMap(flatten).map((inner) => ({ ...inner, path: [...path, ...inner.path] }));
}

/** The alternative of a union that the caller meant has the same type as the value. */
function isOtherType({ code, path }: SchemaIssue): boolean {
  return code === 'invalid_type' && path.length === 0;
}

/** A zod error map. Messages that a schema declares itself take precedence. */
export function issueMessage(issue: RawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'Required' : `Must be ${typeName(issue.expected)}`;
    case 'invalid_format':
      return formats[issue.format] ?? 'Invalid format';
    case 'too_small':
      return sizeMessage('at least', issue.minimum, issue);
    case 'too_big':
      return sizeMessage('at most', issue.maximum, issue);
    case 'not_multiple_of':
      return `Must be a multiple of ${issue.divisor}`;
    case 'unrecognized_keys':
      return `Unknown field${hintFor(issue)}`;
    case 'invalid_value':
      return `Must be ${alternatives(issue.values)}`;
    case 'invalid_union':
      return unionMessage(issue);
    case 'invalid_key': {
      const [first] = issue.issues as SchemaIssue[];
      return first === undefined ? 'Invalid key' : `Invalid key: ${first.message}`;
    }
    default:
      return 'Invalid value';
  }
}

/** In parentheses, as messages are joined with ";". An issue has one message for all of its keys. */
function hintFor({ keys, inst }: RawIssue & { code: 'unrecognized_keys' }): string {
  const [key = '', ...others] = keys as readonly string[];
  const { shape = {} } = (inst as { shape?: object } | undefined) ?? {};
  const meant = others.length === 0 ? meantBy(key, Object.keys(shape)) : undefined;
  return meant === undefined ? '' : ` (did you mean ${meant}?)`;
}

function unionMessage(issue: RawIssue & { code: 'invalid_union' }): string {
  if (issue.input === undefined) return 'Required';
  const { options: all = [] } = issue as { options?: readonly unknown[] };
  const options = all.filter((option) => option !== undefined);
  if (options.length > 0) return `Must be ${alternatives(options)}`;
  const errors = issue.errors as readonly (readonly SchemaIssue[])[];
  if (errors.length === 0 || !errors.every((found) => found.some(isOtherType))) {
    return 'Matches none of the alternatives';
  }
  const types = errors.flat().filter(isOtherType);
  return `Must be ${list([...new Set(types.map(({ expected = '' }) => typeName(expected)))])}`;
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'an integer',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
  null: 'null',
};

function typeName(expected: string): string {
  return typeNames[expected] ?? `a ${expected}`;
}

const formats: Readonly<Record<string, string>> = {
  guid: 'Must be a UUID, such as 01963a5c-7891-7abc-8ef0-123456789abc',
  url: 'Must be a URL, such as https://example.com',
  datetime: 'Must be a time with its zone, such as 2026-01-31T12:00:00Z',
  base64: 'Must be base64',
};

const units: Readonly<Record<string, string>> = { string: 'characters', array: 'items' };

function sizeMessage(
  relation: 'at least' | 'at most',
  bound: number | bigint,
  issue: { origin: string; exact?: boolean | undefined; inclusive?: boolean | undefined },
): string {
  const { origin, exact, inclusive } = issue;
  const unit = units[origin];
  if (unit === undefined && inclusive === false) {
    return `Must be ${relation === 'at least' ? 'greater' : 'less'} than ${bound}`;
  }
  if (unit === undefined) return `Must be ${relation} ${bound}`;
  if (relation === 'at least' && Number(bound) === 1) return 'Must not be empty';
  return exact === true ? `Must have ${bound} ${unit}` : `Must have ${relation} ${bound} ${unit}`;
}

function alternatives(values: readonly unknown[]): string {
  return list(values.map((each) => (typeof each === 'string' ? each : JSON.stringify(each))));
}

function list(words: readonly string[]): string {
  const last = words.at(-1) ?? '';
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} or ${last}`;
}
