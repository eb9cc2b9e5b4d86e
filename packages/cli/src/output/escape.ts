/**
 * Makes untrusted text safe to show: a model's answer or a tool's arguments must not move the
 * cursor, hide text or reverse its direction, especially next to an approval prompt.
 */

/** Ranges of code points that are invisible, control the terminal, or change the text direction. */
const unsafeRanges: readonly (readonly [number, number])[] = [
  [0x00, 0x08],
  [0x0b, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x03_4f, 0x03_4f],
  [0x06_1c, 0x06_1c],
  [0x18_0e, 0x18_0e],
  [0x20_0b, 0x20_0b],
  [0x20_0e, 0x20_0f],
  [0x20_28, 0x20_2e],
  [0x20_60, 0x20_69],
  [0xd8_00, 0xdf_ff],
  [0xfe_ff, 0xfe_ff],
  [0xe_00_00, 0xe_0f_ff],
];

function isSafe(code: number): boolean {
  // Fast path: most text is ASCII.
  if (code >= 0x20 && code < 0x7f) return true;
  return !unsafeRanges.some(([from, to]) => code >= from && code <= to);
}

/** Escapes unsafe code points, except newlines and tabs. */
export function escapeUnsafe(text: string): string {
  let safe = '';
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    safe += isSafe(code) ? char : `\\u{${code.toString(16)}}`;
  }
  return safe;
}

/** The same on one line, for a table cell. */
export function escapeLine(text: string): string {
  return escapeUnsafe(text.replace(/\s*\n\s*/g, ' ').replaceAll('\t', ' '));
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
