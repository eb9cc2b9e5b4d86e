/**
 * What JSON.parse lets through and would change on its way: a key given twice (one is lost), an
 * integer that no number holds (it becomes another one), nesting that overflows whoever walks it. The
 * text has already been parsed; this reads it once more, from left to right.
 */
import type { FieldIssue } from '@relay/protocol';

const maxDepth = 64;

interface Level {
  /** The keys of an object so far; undefined for an array. */
  readonly keys: Set<string> | undefined;
  key: string;
  index: number;
}

/** Of a string only the beginning: it may be longer than a regular expression can follow. */
const token = /"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[{}[\],:]|true|false|null/g;

/** The first thing that is wrong, with its place; undefined if the text means what it says. */
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
          return { path: pathOf(levels), message: `Nested deeper than ${maxDepth}` };
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
          if (level.keys.has(level.key)) return { path: pathOf(levels), message: 'Given twice' };
          level.keys.add(level.key);
        }
        break;
      default:
        if (isUnsafe(text)) {
          return { path: pathOf(levels), message: 'This number cannot be kept exactly' };
        }
    }
  }
  return undefined;
}

/** Right after the quote that ends it: the first that no backslash takes its meaning from. */
function endOfString(json: string, start: number): number {
  for (let quote = json.indexOf('"', start + 1); quote >= 0; quote = json.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (json.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
  }
  return json.length;
}

/** A number that would become another one: beyond all numbers, or whole and no longer exact. */
function isUnsafe(text: string): boolean {
  if (!/^-?\d/.test(text)) return false;
  const number = Number(text);
  if (/^-?\d+$/.test(text)) return !Number.isSafeInteger(number);
  if (!Number.isInteger(number)) return !Number.isFinite(number);
  return !Number.isSafeInteger(number) && digitsOf(text) !== digitsOf(String(number));
}

/** Those that count: 12.30e5 and 1230000 have the same. */
function digitsOf(text: string): string {
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
