/**
 * Makes untrusted text safe to show: a model's answer or a tool's arguments must not move the
 * cursor, hide text or reverse its direction, especially next to an approval prompt.
 */

import { escapeMisleading } from '@relay/protocol/display';

/** Escapes unsafe code points, except newlines and tabs. */
export function escapeUnsafe(text: string): string {
  return escapeMisleading(text);
}

/** JSON without characters that act on the terminal or are invisible; it has the same value. */
export function safeJson(value: unknown, indent?: number): string {
  const json = JSON.stringify(value, undefined, indent) ?? 'null';
  return json.replaceAll(/[[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]--\n]/gv, (char) =>
    Array.from({ length: char.length }, (_, at) => {
      return `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}

/** The same on one line, for a table cell. */
export function escapeLine(text: string): string {
  const line = text.replaceAll(/\s+/g, (space) => (space.includes('\n') ? ' ' : space));
  return escapeUnsafe(line.replaceAll('\t', ' '));
}

const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u;
const zeroWidth = /\p{Mn}|\p{Me}/u;

function columnsOf(char: string): number {
  if (zeroWidth.test(char)) return 0;
  return wide.test(char) ? 2 : 1;
}

/** The number of terminal columns that the text takes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const char of text) width += columnsOf(char);
  return width;
}

/** Cuts the text to a number of columns, with an ellipsis. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let cut = '';
  let used = 0;
  for (const char of text) {
    const columns = columnsOf(char);
    if (used + columns > width - 1) break;
    cut += char;
    used += columns;
  }
  return `${cut}…`;
}

/** The lines of a text, broken between words. A longer word, such as a URL, stays whole. */
export function wrapTo(text: string, width: number): string[] {
  return text.split('\n').flatMap((line) => {
    if (widthOf(line) <= width) return [line];
    const lines: string[] = [];
    let current = '';
    for (const word of line.split(' ')) {
      const longer = current === '' ? word : `${current} ${word}`;
      if (current !== '' && widthOf(longer) > width) {
        lines.push(current);
        current = word;
      } else current = longer;
    }
    return [...lines, current];
  });
}
