/**
 * JSON bodies. Refuses what JSON.parse accepts and changes: a duplicate key (one value is lost), a number
 * that cannot be represented exactly, and nesting so deep that recursion overflows. The text has been
 * parsed already and is scanned once more.
 */
import { type FieldIssue, RelayError } from '@relay/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { invalidRequest } from './errors.ts';

/** Accepts `application/json` only. A POST without a body, such as a cancel, may name it too. */
export function acceptJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    const text = body as string;
    if (!isPlainUtf8(request)) {
      const message = 'The body must be UTF-8 and not compressed';
      done(new RelayError('unsupported_media_type', message), undefined);
      return;
    }
    if (text === '') {
      done(null, undefined);
      return;
    }
    void parse(request, text, (error: Error | null, value?: unknown) => {
      const issue = error === null ? findAmbiguity(text) : undefined;
      if (issue === undefined) done(error, value);
      else done(invalidRequest([issue]), undefined);
    });
  });
}

function isPlainUtf8({ headers }: FastifyRequest): boolean {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type)?.[1] ?? 'utf-8';
  return encoding === 'identity' && /^(?:utf-?8|us-ascii)$/i.test(charset);
}

const maxDepth = 64;

interface Level {
  /** The keys of an object so far; undefined for an array. */
  readonly keys: Set<string> | undefined;
  key: string;
  index: number;
}

/** Matches only the opening quote of a string, which may be too long for a regular expression. */
const token = /"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[{}[\],:]|true|false|null/g;

/** The first issue, with its path; undefined if the text is unambiguous. */
export function findAmbiguity(json: string): FieldIssue | undefined {
  const levels: Level[] = [];
  let expectsKey = false;
  const tokens = new RegExp(token);
  for (let found = tokens.exec(json); found !== null; found = tokens.exec(json)) {
    const [text] = found;
    const level = levels.at(-1);
    switch (text) {
      case '{':
      case '[':
        if (levels.length === maxDepth) {
          return { path: pathOf(levels), message: `Nested deeper than ${maxDepth} levels` };
        }
        levels.push({ keys: text === '{' ? new Set() : undefined, key: '', index: 0 });
        expectsKey = text === '{';
        break;
      case '}':
      case ']':
        levels.pop();
        expectsKey = false;
        break;
      case ',':
        if (level !== undefined) level.index += 1;
        expectsKey = level?.keys !== undefined;
        break;
      case ':':
        expectsKey = false;
        break;
      case '"':
        tokens.lastIndex = endOfString(json, found.index);
        if (expectsKey && level?.keys !== undefined) {
          level.key = JSON.parse(json.slice(found.index, tokens.lastIndex)) as string;
          if (level.keys.has(level.key)) return { path: pathOf(levels), message: 'Duplicate key' };
          level.keys.add(level.key);
        }
        break;
      default:
        if (isInexact(text)) {
          return { path: pathOf(levels), message: 'This number cannot be represented exactly' };
        }
    }
  }
  return undefined;
}

/** The position after the closing quote: the first quote that is not escaped. */
function endOfString(json: string, start: number): number {
  for (let quote = json.indexOf('"', start + 1); quote >= 0; quote = json.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (json.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
  }
  return json.length;
}

/** Whether parsing changes the number: it is out of range, or an integer that is no longer exact. */
function isInexact(text: string): boolean {
  if (!/^-?\d/.test(text)) return false;
  const number = Number(text);
  if (/^-?\d+$/.test(text)) return !Number.isSafeInteger(number);
  if (!Number.isInteger(number)) return !Number.isFinite(number);
  return (
    !Number.isSafeInteger(number) && significantDigits(text) !== significantDigits(String(number))
  );
}

/** The same for 12.30e5 and 1230000. */
function significantDigits(text: string): string {
  const [mantissa = ''] = text.toLowerCase().split('e');
  return mantissa.replace(/[-.]/g, '').replace(/^0+/, '').replace(/0+$/, '');
}

function pathOf(levels: readonly Level[]): string {
  return levels
    .map(({ keys, key, index }, depth) => {
      if (keys === undefined) return `[${index}]`;
      return depth === 0 ? key : `.${key}`;
    })
    .join('');
}
