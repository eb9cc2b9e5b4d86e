/** The beginning of a text, at most so many bytes of UTF-8; the text itself if it is not longer. */
export function truncate(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes) return text;
  let bytes = 0;
  for (let at = 0; at < text.length;) {
    const code = text.codePointAt(at) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > maxBytes) return text.slice(0, at);
    at += code < 0x10000 ? 1 : 2;
  }
  return text;
}
