/** A call on one line. */
import { isObject } from '@relay/protocol/wire';

const maxLength = 300;
/** Parameters that say by themselves what a call does. */
const telling = ['command', 'filePath', 'path', 'url', 'query'];

/** As much of the parameters as fits on a line: those that say most first, names where they are needed. */
export function summaryOf(params: unknown): string {
  if (!isObject(params)) return shortened(textOf(params));
  const main = telling.find((name) => typeof params[name] === 'string');
  const parts: string[] = main === undefined ? [] : [textOf(params[main])];
  let length = 0;
  for (const [name, value] of Object.entries(params)) {
    if (name === main) continue;
    if (length > maxLength) break;
    const part = `${name}: ${typeof value === 'string' ? quoted(value) : textOf(value)}`;
    parts.push(part);
    length += part.length;
  }
  return shortened(parts.join('  '));
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, maxLength));
}

/** Large values are counted, not written. */
function textOf(value: unknown): string {
  if (typeof value === 'string')
    return value.slice(0, maxLength + 1).replaceAll(/\s*\n\s*/g, ' ⏎ ');
  if (Array.isArray(value)) return value.length === 0 ? '[]' : `[${value.length}]`;
  if (isObject(value)) return Object.keys(value).length === 0 ? '{}' : '{…}';
  return JSON.stringify(value) ?? 'null';
}

function shortened(text: string): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}
