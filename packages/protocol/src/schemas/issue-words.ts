/** What a schema found wrong, in our own words instead of the library's. */

export interface SchemaIssue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly code?: string | undefined;
  /** The keys that nobody knows, if that is what is wrong. */
  readonly keys?: readonly string[];
  readonly expected?: string;
  readonly format?: string;
  readonly values?: readonly unknown[];
  readonly origin?: string;
  readonly minimum?: number | bigint;
  readonly maximum?: number | bigint;
  readonly exact?: boolean;
  /** What each alternative finds wrong. */
  readonly errors?: readonly (readonly SchemaIssue[])[];
  readonly options?: readonly unknown[];
  readonly issues?: readonly SchemaIssue[];
}

interface EventBuffer {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Where something is wrong and what, one for each thing that is. */
export function tellIssue(issue: SchemaIssue): EventBuffer[] {
  const { path, keys, errors = [] } = issue;
  if (keys !== undefined) {
    return keys.map((key) => ({ path: [...path, key], message: 'Unknown field' }));
  }
  if (issue.code !== 'invalid_union' || errors.length === 0) {
    return [{ path, message: wordsFor(issue) }];
  }
  // The alternative that was meant is the one that looked further than at what kind of thing it is.
  const meant = errors.filter((found) => !found.some(isOtherKind));
  const [only] = meant.length === 1 ? meant : [];
  if (only !== undefined) {
    return only.flatMap(tellIssue).map((told) => ({ ...told, path: [...path, ...told.path] }));
  }
  const kinds = errors.flat().filter(isOtherKind);
  if (kinds.length === 0 || meant.length > 0) {
    return [{ path, message: 'Fits none of the alternatives' }];
  }
  if (kinds.every(isMissing)) return [{ path, message: 'Required' }];
  const names = [...new Set(kinds.map(({ expected = '' }) => kindName(expected)))];
  return [{ path, message: `Must be ${joined(names, 'or')}` }];
}

function isOtherKind({ code, path }: SchemaIssue): boolean {
  return code === 'invalid_type' && path.length === 0;
}

function isMissing({ message }: SchemaIssue): boolean {
  return message.endsWith('received undefined');
}

/** A schema's own sentence is kept; the library's begin like this. */
const foreign = /^(Invalid |Too small|Too big)/;

function wordsFor(issue: SchemaIssue): string {
  const { code, message, expected = '', format = '', values = [], options = [] } = issue;
  if (!foreign.test(message) && message !== 'Invalid input') return message;
  switch (code) {
    case 'invalid_type':
      return isMissing(issue) ? 'Required' : `Must be ${kindName(expected)}`;
    case 'invalid_format':
      return formats[format] ?? 'Has the wrong form';
    case 'too_small':
    case 'too_big':
      return size(issue);
    case 'invalid_value':
      return `Must be ${joined(values.map(show), 'or')}`;
    case 'invalid_union':
      return options.length === 0 ? 'Is not known' : `Must be ${joined(options.map(show), 'or')}`;
    case 'invalid_key': {
      const [first] = issue.issues ?? [];
      return first === undefined ? 'Is no name here' : `Is no name here: ${wordsFor(first)}`;
    }
    default:
      return 'Is not what it should be';
  }
}

const kinds: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
};

function kindName(expected: string): string {
  return kinds[expected] ?? `a ${expected}`;
}

const formats: Readonly<Record<string, string>> = {
  guid: 'Must be an id, such as 01963a5c-7891-7abc-8ef0-123456789abc',
  url: 'Must be a URL, such as https://example.com',
  datetime: 'Must be a time with its zone, such as 2026-01-31T12:00:00Z',
  base64: 'Must be base64',
};

const units: Readonly<Record<string, string>> = { string: 'characters', array: 'items' };

function size({ origin = '', minimum, maximum, exact }: SchemaIssue): string {
  const unit = units[origin];
  const bound = minimum ?? maximum;
  if (unit === undefined) return `Must be at ${minimum === undefined ? 'most' : 'least'} ${bound}`;
  if (minimum !== undefined && Number(minimum) === 1) return 'Must not be empty';
  if (exact === true) return `Must have ${bound} ${unit}`;
  return `Must have at ${minimum === undefined ? 'most' : 'least'} ${bound} ${unit}`;
}

/** Words stand as they are; what is no word is written as JSON. */
function show(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
}

function joined(words: readonly string[], and: string): string {
  const last = words.at(-1) ?? '';
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} ${and} ${last}`;
}
