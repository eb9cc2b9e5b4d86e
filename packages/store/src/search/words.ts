/**
 * A text as the words that it is found by, the same for every store: lower case, without accents,
 * plurals in -s as their singular. Scripts that put no space between words are cut into overlapping
 * pairs of characters, which needs no dictionary and never changes with one.
 *
 * A word consists of letters, marks and digits alone: it can stand in any query language without
 * being taken for syntax.
 */
/** Where they are accents: in other scripts such marks make another letter. */
const accents = /(?<=[\p{Script=Latin}\p{Script=Greek}е])[\u0300-\u036f]+/gu;
const wordLike = /[\p{L}\p{M}\p{N}]+/gu;
const unspaced =
  /([\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]+)/u;
const longestWord = 40;

export function wordsOf(text: string): string[] {
  const plain = text.toLowerCase().normalize('NFKD').replaceAll(accents, '').normalize('NFC');
  const words: string[] = [];
  for (const [found] of plain.matchAll(wordLike)) {
    if (/^[a-z0-9]+$/.test(found)) words.push(singular(shortened(found)));
    else for (const part of found.split(unspaced)) words.push(...wordsIn(part));
  }
  return words;
}

function wordsIn(part: string): string[] {
  if (part === '') return [];
  if (!unspaced.test(part)) return [shortened(part)];
  const signs = Array.from(part);
  if (signs.length === 1) return signs;
  return signs.slice(1).map((sign, before) => `${signs[before]}${sign}`);
}

function shortened(word: string): string {
  return word.length <= longestWord ? word : word.slice(0, longestWord).toWellFormed();
}

/** The plural of many languages, and a mistake in others that is made on both sides alike. */
function singular(word: string): string {
  return word.length > 3 && /[^sui]s$/.test(word) ? word.slice(0, -1) : word;
}
