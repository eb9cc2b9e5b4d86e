/** A shorter text is not worth it. */
const minStep = 16 * 1024;

/**
 * Appends to a text that grows in many small pieces. V8 represents such a text as a tree of its pieces,
 * which takes several times its size, until it has to read the text. So the text is read whenever it
 * has grown by an eighth: the total cost stays linear.
 */
export function appendText(text: string, piece: string): string {
  const longer = text + piece;
  if (longer.length < minStep) return longer;
  const step = Math.max(minStep, (0x8000_0000 >>> Math.clz32(longer.length)) >>> 3);
  if (Math.floor(text.length / step) !== Math.floor(longer.length / step)) flatten(longer);
  return longer;
}

/** Converting a text to a number makes V8 replace the tree by one piece. */
function flatten(text: string): void {
  Number(text);
}
