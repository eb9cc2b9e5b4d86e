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

const structure = new Set(['{', '}', '[', ']', ',', ':']);

/** Structure, strings and numbers, one by one. No expression looks at a string: it may be long. */
function* tokensOf(json: string): Generator<string> {
  for (let at = 0; at < json.length;) {
    const char = json[at] ?? '';
    let end = at + 1;
    if (char === '"') end = endOfString(json, at);
    else if (isOfNumber(char)) while (isOfNumber(json[end] ?? '')) end += 1;
    else if (!structure.has(char)) {
      at = end;
      continue;
    }
    yield json.slice(at, end);
    at = end;
  }
}

function endOfString(json: string, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** The letters of `true`, `false` and `null` are skipped, but for an `e`, which is no number. */
function isOfNumber(char: string): boolean {
  return (
    (char >= '0' && char <= '9') ||
    char === '-' ||
    char === '+' ||
    char === '.' ||
    char === 'e' ||
    char === 'E'
  );
}

/** The first thing that is wrong, with its place; undefined if the text means what it says. */
export function findAmbiguity(json: string): FieldIssue | undefined {
  const levels: Level[] = [];
  let expectsKey = false;
  for (const text of tokensOf(json)) {
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
      default:
        if (expectsKey && level?.keys !== undefined) {
          level.key = JSON.parse(text) as string;
          if (level.keys.has(level.key)) return { path: pathOf(levels), message: 'Given twice' };
          level.keys.add(level.key);
        } else if (isUnsafe(text)) {
          return { path: pathOf(levels), message: 'This number cannot be kept exactly' };
        }
    }
  }
  return undefined;
}

function isUnsafe(text: string): boolean {
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text));
}

function pathOf(levels: readonly Level[]): string {
  return levels
    .map(({ keys, key, index }, depth) => {
      if (keys === undefined) return `[${index}]`;
      return depth === 0 ? key : `.${key}`;
    })
    .join('');
}
