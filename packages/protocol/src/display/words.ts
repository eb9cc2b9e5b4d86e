/**
 * Words that look like other words: those that mix scripts beyond the level "highly restrictive" of
 * UTS 39, and those in one script whose letters all look like ASCII letters ("ѕсоре" in Cyrillic).
 *
 * A word that only looks like ASCII is ordinary beside other words of its script: a Russian sentence
 * contains "а" and "с". The work is bounded: a text that is too long is flagged as not checked.
 */
import { remembered } from './characters.ts';

export interface MisleadingWord {
  readonly flag: 'mixed-scripts' | 'confusable' | 'not-checked';
  /** A sentence for the approver. */
  readonly note: string;
}

const maxFindings = 10;
/** Words with characters that are not ASCII. More would hold up the process for too long. */
const maxChecked = 40_000;
const maxShownLetters = 8;
const maxShownWord = 64;

/**
 * Words with a character that is not ASCII. Escape sequences of JSON are skipped: the `n` of `\n` is not
 * part of the word that follows.
 */
const escapeOrWord =
  /\\(?:u[\da-f]{4}|[nrtbf"\\])|(?<![A-Za-z0-9_])[A-Za-z0-9_]*[[\p{L}\p{M}\p{N}]--[\0-\x7f]][\p{L}\p{M}\p{N}_]*/gv;
const ascii = /^[\0-\x7f]*$/;

/** Characters that are checked for words, for the same reason. */
const maxText = 150_000;

export function misleadingWords(whole: string): MisleadingWord[] {
  if (ascii.test(whole)) return [];
  const text = whole.slice(0, maxText);
  const found = new Map<string, MisleadingWord>();
  /** Lookalikes that no neighbour has explained yet. */
  let unexplained: string[] = [];
  const explain = (script: string | undefined) => {
    for (const word of unexplained) {
      if (found.size >= maxFindings) break;
      if (script === undefined || !neighbourScripts(word).includes(script)) {
        found.set(word, confusable(word));
      }
    }
    unexplained = [];
  };
  /** The script of the word before, if that word does not look like ASCII itself. */
  let before: string | undefined;
  let end = 0;
  let checked = 0;
  for (const { 0: word, index } of text.matchAll(escapeOrWord)) {
    // A plain ASCII word separates the words around it.
    if (/[A-Za-z]/.test(text.slice(end, index))) {
      explain(undefined);
      before = undefined;
    }
    end = index + word.length;
    if (word.startsWith('\\')) continue;
    if (found.size >= maxFindings) break;
    checked += 1;
    if (checked > maxChecked) {
      found.set('', { flag: 'not-checked', note: `Only ${maxChecked} words were checked` });
      break;
    }
    if (found.has(word)) {
      before = undefined;
      continue;
    }
    if (!isOneScript.test(word) && isMixed(scriptsOf(word))) {
      explain(undefined);
      before = undefined;
      found.set(word, mixed(word));
    } else if (lookalike(word) === undefined) {
      before = scriptSetOf(String.fromCodePoint(word.codePointAt(0) ?? 0))[0];
      if (before !== undefined && unexplained.length > 0) explain(before);
    } else if (before === undefined || !neighbourScripts(word).includes(before)) {
      unexplained.push(word);
      if (unexplained.length > maxUnexplained) explain(undefined);
    }
  }
  explain(undefined);
  const rest: MisleadingWord[] = ascii.test(whole.slice(maxText))
    ? []
    : [{ flag: 'not-checked', note: `Only words in the first ${maxText} characters were checked` }];
  return [...found.values(), ...separatorsIn(text), ...rest];
}

/** So many lookalikes in a row are not ordinary writing. */
const maxUnexplained = 8;

/** The scripts of words beside which a lookalike is ordinary. */
const neighbourScripts = remembered((word: string): ScriptSet => {
  if (fullwidth.test(word)) return ['Hani', 'Hira', 'Kana', 'Hang', 'Bopo'];
  // Letters that are Latin or used by all scripts have no ordinary neighbours.
  const [own = common] = scriptsOf(word);
  return own.includes('Latn') ? common : own;
});

/** Most words, tested first. */
const isOneScript =
  /^(?:\p{sc=Cyrl}+|\p{sc=Latn}+|\p{sc=Grek}+|\p{sc=Arab}+|\p{sc=Hebr}+|\p{sc=Han}+|\p{sc=Hang}+|\p{sc=Deva}+|\p{sc=Thai}+)$/v;

function confusable(word: string): MisleadingWord {
  const odd = lettersOf(word, (char) => !ascii.test(char));
  const looks = quoted(lookalike(word) ?? '');
  return { flag: 'confusable', note: `${quoted(word)} looks like ${looks} but is not: ${odd}` };
}

function mixed(word: string): MisleadingWord {
  const names = [...new Set(scriptsOf(word).map((set) => scriptName(set[0])))];
  const main = names.includes('Latin') ? 'Latin' : names[0];
  const odd = lettersOf(word, (char) => {
    const set = scriptSetOf(char);
    return set.length > 0 && scriptName(set[0]) !== main;
  });
  return {
    flag: 'mixed-scripts',
    note: `${quoted(word)} mixes letters of ${names.join(' and ')}: ${odd}`,
  };
}

function lettersOf(word: string, isOdd: (char: string) => boolean): string {
  const odd = [...new Set(Array.from(word).filter(isOdd))];
  const shown = odd.slice(0, maxShownLetters).map((char) => {
    const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    const [script] = scriptSetOf(char);
    const looks = asciiFor(char);
    const like = looks === undefined ? '' : `, like "${looks}"`;
    return `"${char}" U+${code}${script === undefined ? '' : ` ${scriptName(script)}`}${like}`;
  });
  const rest = odd.length - shown.length;
  return shown.join('; ') + (rest > 0 ? `; and ${rest} more` : '');
}

function quoted(word: string): string {
  return `"${word.length <= maxShownWord ? word : `${word.slice(0, maxShownWord)}…`}"`;
}

/* Scripts. A character that several scripts use belongs to each of them (Script_Extensions). */

const scriptNames: Readonly<Record<string, string>> = {
  Latn: 'Latin',
  Cyrl: 'Cyrillic',
  Grek: 'Greek',
  Armn: 'Armenian',
  Arab: 'Arabic',
  Hebr: 'Hebrew',
  Hani: 'Han',
  Hira: 'Hiragana',
  Kana: 'Katakana',
  Hang: 'Hangul',
  Bopo: 'Bopomofo',
  Cher: 'Cherokee',
  Copt: 'Coptic',
  Deva: 'Devanagari',
  Geor: 'Georgian',
};

function scriptName(script: string | undefined): string {
  return script === undefined ? '' : (scriptNames[script] ?? script);
}

/** The scripts of UAX 31 that are in use, and some that have lookalikes; any other is "Zzzz". */
const scriptCodes = (
  'Latn Cyrl Grek Arab Hebr Hira Kana Deva Thai Armn Beng Bopo Ethi Geor Gujr Guru Knda Khmr Laoo Mlym ' +
  'Mymr Orya Sinh Taml Telu Thaa Tibt Adlm Bali Bamu Batk Cakm Cans Cham Cher Hmnp Java Kali Lana Lepc ' +
  'Limb Lisu Mand Mong Mtei Newa Nkoo Olck Osge Plrd Rohg Saur Sund Sylo Syrc Tale Talu Tavt Tfng Vaii ' +
  'Wcho Yiii Copt Dsrt Goth Hani Hang'
).split(' ');

/** Compiled at the first use, because that takes long. */
const charactersOf = remembered((script: string) => new RegExp(String.raw`\p{scx=${script}}`, 'v'));

type ScriptSet = readonly string[];
const common: ScriptSet = [];
const han: ScriptSet = ['Hani'];
const hangul: ScriptSet = ['Hang'];

const scriptSetOf = remembered((char: string): ScriptSet => {
  // Most of Unicode, tested first.
  if (/\p{Unified_Ideograph}/v.test(char)) return han;
  if (/[\uac00-\ud7a3]/v.test(char)) return hangul;
  if (/[\p{scx=Zyyy}\p{scx=Zinh}]/v.test(char)) return common;
  const names = scriptCodes.filter((script) => charactersOf(script).test(char));
  return names.length === 0 ? ['Zzzz'] : names;
});

/** The different script sets of a word, without characters that all scripts use. */
function scriptsOf(word: string): ScriptSet[] {
  const sets = new Set<ScriptSet>();
  for (const char of word) {
    const set = scriptSetOf(char);
    if (set.length > 0) sets.add(set);
  }
  return [...sets];
}

/** Writing systems of several scripts, which are used with Latin letters (UTS 39, 5.2). */
const systems: readonly ReadonlySet<string>[] = [
  new Set(['Latn', 'Hani', 'Hira', 'Kana']),
  new Set(['Latn', 'Hani', 'Bopo']),
  new Set(['Latn', 'Hani', 'Hang']),
];

function isMixed(sets: readonly ScriptSet[]): boolean {
  const [first, ...others] = sets;
  if (first === undefined || others.length === 0) return false;
  if (first.some((script) => others.every((set) => set.includes(script)))) return false;
  return !systems.some((system) => sets.every((set) => set.some((script) => system.has(script))));
}

/* Lookalikes: single characters that look like an ASCII letter or digit in common fonts. */

const pairs = [
  // Cyrillic
  'аa еe оo рp сc уy хx ѕs іi јj һh ԁd ԛq ԝw ѵv ӏl АA ВB ЕE КK МM НH ОO РP СC ТT УY ХX ЅS ІI ЈJ ԚQ ԜW ѴV ҮY ӀI ԌG',
  // Greek and Coptic
  'αa οo ρp νv γy ιi υu σo ϲc ϳj ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX ϹC ϜF ⲟo ⲣp ⲥc ⲞO ⲢP ⲤC ⲚN ⲔK ⲘM ⲎH ⲒI',
  // Armenian
  'օo սu հh ոn ցg զq յj լl ՏS ՍU ՕO ԼL',
  // Cherokee
  'ᎠD ᎡR ᎢT ᎥI ᎩY ᎪA ᎫJ ᎬE ᎳW ᎷM ᎻH ᎽY ᏀG ᏃZ ᏎA ᏏB ᏒR ᏔW ᏕS ᏙV ᏚS ᏞL ᏟC ᏢP ᏦK ᏧJ ᏴB',
  // Lisu
  'ꓐB ꓑP ꓓD ꓔT ꓖG ꓗK ꓙJ ꓚC ꓜZ ꓝF ꓟM ꓠN ꓡL ꓢS ꓣR ꓦV ꓧH ꓪW ꓫX ꓬY ꓮA ꓰE ꓲI ꓳO ꓴU',
  // Latin, but not ASCII
  'ɑa ɡg ɩi ɪi ᴄc ᴏo ᴠv ᴡw ᴢz ꜱs ꜰf ƽs ſf ǀl ʟL ʀR ɴN ʜH',
].flatMap((line) => line.split(' '));

const lookalikes: ReadonlyMap<string, string> = new Map(
  pairs.map((pair) => [pair.slice(0, -1), pair.slice(-1)]),
);

/** Fullwidth forms, mathematical letters, letterlike symbols and Roman numerals. */
const styled = /[\uff10-\uff5a\u{1d400}-\u{1d7ff}\u2100-\u2149\u2160-\u217f]/v;

function asciiFor(char: string): string | undefined {
  if (ascii.test(char)) return char;
  const known = lookalikes.get(char);
  if (known !== undefined || !styled.test(char)) return known;
  const plain = char.normalize('NFKC');
  return ascii.test(plain) ? plain : undefined;
}

const fullwidth = /^[\uff10-\uff5a]+$/v;
const numerals = /^[\u2160-\u217f]+$/v;

/** A longer run of letters is not read as a word. */
const maxWord = 1_000;

/** The ASCII word that the word looks like; undefined if it does not. */
function lookalike(word: string): string | undefined {
  if (word.length > maxWord) return undefined;
  let looks = '';
  for (const char of word) {
    const plain = asciiFor(char);
    if (plain === undefined) return undefined;
    looks += plain;
  }
  return numerals.test(word) || !/[A-Za-z]/.test(looks) ? undefined : looks;
}

/** Characters that look like a slash or a dot, beside an ASCII letter: one name that looks like two. */
const separators =
  /[\u2044\u2215\u29f8\u2571\uff0f\u2024\uff0e\ua4f8](?=[A-Za-z])|(?<=[A-Za-z])[\u2044\u2215\u29f8\u2571\uff0f\u2024\uff0e\ua4f8]/gv;

function separatorsIn(text: string): MisleadingWord[] {
  const found = new Set<string>();
  for (const [char] of text.matchAll(separators)) found.add(char);
  return [...found].map((char) => {
    const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase();
    const looks = '\u2024\uff0e\ua4f8'.includes(char) ? 'dot' : 'slash';
    return { flag: 'confusable', note: `"${char}" U+${code} looks like a ${looks} but is not` };
  });
}
