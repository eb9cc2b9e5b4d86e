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

const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[{}[\],:]|true|false|null/gs;

/** The first thing that is wrong, with its place; undefined if the text means what it says. */
export function findAmbiguity(json: string): FieldIssue | undefined {
  const levels: Level[] = [];
  let expectsKey = false;
  for (const [text] of json.matchAll(token)) {
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
