/**
 * Preselects vectors by their signs, one bit per number: 192 bytes instead of 6,144 for 1,536 numbers.
 * Similar vectors share most signs, so the nearest ones are among those whose signs differ least, and
 * only these are compared as a whole.
 */
export type SignBits = Uint32Array;

export function signBitsOf(vector: Float32Array): SignBits {
  const signs = new Uint32Array(Math.ceil(vector.length / 32));
  for (let index = 0; index < vector.length; index += 1) {
    const word = index >> 5;
    const sign = (vector[index] as number) > 0 ? 1 << (index & 31) : 0;
    signs[word] = (signs[word] as number) | sign;
  }
  return signs;
}

/** The sizes of prepared statements. The last is the most that a search asks for. */
const sizes = [64, 128, 256, 512];

/**
 * How many whole vectors are compared: about 400 kB, because reading them dominates the cost, but at
 * least `wanted`. Short vectors have fewer signs, which are less precise, so more of them are compared.
 */
export function candidateCount(dimensions: number, wanted: number): number {
  const usual = Math.min(98_304 / Math.max(1, dimensions), 256);
  return sizes.find((size) => size >= usual && size >= wanted) ?? Math.max(512, wanted);
}

/** The signs of vectors of one length, in one array. */
export interface SignBitTable {
  readonly ids: readonly string[];
  /** 32-bit words per vector. */
  readonly words: number;
  readonly signs: Uint32Array;
}

/** The ids whose signs differ least from the query's; of equals, the last ones. */
export function nearestByHamming(
  table: SignBitTable,
  queryBits: SignBits,
  count: number,
): string[] {
  const { ids, words, signs } = table;
  if (words !== queryBits.length) return [];
  if (ids.length <= count) return [...ids];
  const differences = new Uint16Array(ids.length);
  const histogram = new Uint32Array(words * 32 + 1);
  for (let row = 0, at = 0; row < ids.length; row += 1) {
    let difference = 0;
    for (let word = 0; word < words; word += 1, at += 1) {
      difference += bitsIn((signs[at] as number) ^ (queryBits[word] as number));
    }
    differences[row] = difference;
    histogram[difference] = (histogram[difference] as number) + 1;
  }
  let limit = 0;
  for (let sum = 0; sum < count; limit += 1) sum += histogram[limit] as number;
  const found: string[] = [];
  const edge: string[] = [];
  for (let row = ids.length - 1; row >= 0; row -= 1) {
    const difference = differences[row] as number;
    if (difference < limit - 1) found.push(ids[row] as string);
    else if (difference === limit - 1) edge.push(ids[row] as string);
  }
  return [...found, ...edge.slice(0, count - found.length)];
}

function bitsIn(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** To length 1, so that the product of two vectors is their cosine. */
export function normalized(vector: Float32Array): Float32Array {
  let sum = 0;
  for (let index = 0; index < vector.length; index += 1) sum += (vector[index] as number) ** 2;
  const length = Math.sqrt(sum);
  return length === 0 ? vector : vector.map((value) => value / length);
}

/** Rounded. 0 for vectors of different lengths. */
export function cosine(one: Float32Array, other: Float32Array): number {
  if (one.length !== other.length) return 0;
  let sum = 0;
  for (let index = 0; index < one.length; index += 1) {
    sum += (one[index] as number) * (other[index] as number);
  }
  return Math.round(sum * 10_000) / 10_000;
}
