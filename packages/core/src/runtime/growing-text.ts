/**
 * A text that grows in many small pieces. V8 represents a sum of strings as a tree of its pieces, which
 * takes several times the size of small ones. So pieces are copied into blocks: each character once,
 * and the tree of blocks takes no more than its text.
 */
export interface GrowingText {
  readonly blocks: string;
  /** Shorter than a block. */
  readonly tail: string;
}

const blockChars = 4096;

export const noText: GrowingText = { blocks: '', tail: '' };

export function appendText(text: GrowingText, piece: string): GrowingText {
  const tail = text.tail + piece;
  return tail.length < blockChars ? { blocks: text.blocks, tail } : endText({ ...text, tail });
}

/** The same text without a tail, so that all readers share one copy. */
export function endText({ blocks, tail }: GrowingText): GrowingText {
  flatten(tail);
  return { blocks: blocks + tail, tail: '' };
}

export function textOf({ blocks, tail }: GrowingText): string {
  return blocks + tail;
}

/** Converting a text to a number makes V8 replace the tree by one piece. */
function flatten(text: string): void {
  Number(text);
}
