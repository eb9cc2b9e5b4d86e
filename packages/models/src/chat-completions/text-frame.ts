/**
 * Reads the frame that a stream repeats hundreds of times without parsing it again: the same JSON,
 * except for the text in the middle.
 *
 * Why it is exact: `record` cuts a parsed frame around its content and parses it once more with
 * `probe` at that position. The frame contains no backslash and no other `probe`, so if the parsed
 * content is `probe`, then that position is the content's string token. Any other text without a
 * quote, a backslash or a control character is a string token there too, represents itself, and
 * leaves all other tokens unchanged.
 */

const probe = '~content~';
const key = '"content"';
/** Some servers vary every frame. */
const maxAttempts = 3;
/** V8 copies slices up to this length; a longer slice would retain its whole network chunk. */
const maxChars = 12;

export class TextFrame {
  #before = '';
  #after = '';
  #attempts = 0;

  /** The content of a known frame; undefined if the frame has to be parsed. */
  read(data: string): string | undefined {
    const from = this.#before.length;
    const to = data.length - this.#after.length;
    if (from === 0 || to <= from || to - from > maxChars) return undefined;
    // Comparing slices is three times as fast as startsWith.
    if (data.slice(0, from) !== this.#before || data.slice(to) !== this.#after) return undefined;
    const text = data.slice(from, to);
    return isPlain(text) ? text : undefined;
  }

  /** `data` was parsed, and contains nothing besides the content `text`. */
  record(data: string, text: string): void {
    if (this.#attempts === maxAttempts) return;
    this.#attempts += 1;
    const at = data.indexOf('"', data.indexOf(key) + key.length) + 1;
    if (data.includes('\\') || data.includes(probe) || !data.startsWith(text, at)) return;
    const before = data.slice(0, at);
    const after = data.slice(at + text.length);
    if (contentOf(before + probe + after) !== probe) return;
    this.#before = before;
    this.#after = after;
  }
}

function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit < 0x20 || unit === 0x22 || unit === 0x5c) return false;
  }
  return true;
}

function contentOf(data: string): unknown {
  try {
    const chunk = JSON.parse(data) as { choices: { delta: { content: unknown } }[] };
    return chunk.choices[0]?.delta.content;
  } catch {
    return undefined;
  }
}
