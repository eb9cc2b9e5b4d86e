const BITS = 18;
const SHIFT = 32 - BITS;

/**
 * Which sequences of three characters a text contains, to rule out at once the patterns that require
 * others. Different sequences may share a bit, so it can say "contains" wrongly, never "lacks".
 */
export class TextIndex {
  readonly #bits = new Int32Array(1 << (BITS - 5));

  constructor(text: string) {
    const bits = this.#bits;
    let [first, second] = [text.charCodeAt(0), text.charCodeAt(1)];
    for (let at = 2; at < text.length; at += 1) {
      const third = text.charCodeAt(at);
      const hash = hashOf(first, second, third);
      bits[hash >>> 5]! |= 1 << (hash & 31);
      first = second;
      second = third;
    }
  }

  mayContain(trigrams: Int32Array): boolean {
    for (const hash of trigrams) {
      if ((this.#bits[hash >>> 5]! & (1 << (hash & 31))) === 0) return false;
    }
    return true;
  }
}

/** The sequences of a text that an index can be asked for. */
export function trigramsOf(text: string): Int32Array {
  return Int32Array.from({ length: Math.max(0, text.length - 2) }, (_, at) =>
    hashOf(text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2)),
  );
}

function hashOf(first: number, second: number, third: number): number {
  return (
    Math.imul(
      first ^ Math.imul(second, 0x1_01_21) ^ Math.imul(third, 0x2c_1b_3d),
      0x9e_37_79_b1,
    ) >>> SHIFT
  );
}
