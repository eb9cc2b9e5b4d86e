/**
 * The words of a text, as they are indexed: lower case, without accents, plurals in -s as singulars.
 * Scripts without spaces between words are cut into overlapping pairs of characters, which needs no
 * dictionary.
 *
 * A word consists of letters, marks and digits alone, so that it is never syntax in a query language.
 */
/** In other scripts such marks form another letter. */
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

/** The plural of many languages. In others it is wrong, but the same for memories and queries. */
function singular(word: string): string {
  return word.length > 3 && /[^sui]s$/.test(word) ? word.slice(0, -1) : word;
}

/**
 * Words that carry no meaning of their own. They are indexed like others, but a query with other words is
 * not searched by them. Words with a meaning in another of these languages are not listed: "die", "war",
 * "hat" and "son".
 */
const lists = {
  english: `a about after again all also am an and any are as asked answered at be because been
    before being but by can could did do does doing done for from further get got had has have
    having he her here hers him his how i if in into is it its just let made make me might
    more most must my no nor not now of off on once only or other our ours out over own please said
    same say shall she should so some such tell than that the their theirs them then there these
    they this those through to too under until up upon us very was we were what when where which
    while who whom whose why will with would yes you your yours`,
  german: `aber als auch auf aus bei bin bist bitte da damit dann das dass dein deine dem den der des
    dich dir doch du durch ein eine einem einen einer eines er es euch euer fur haben habe hast ich
    ihm ihn ihr ihre im ist ja jede jeder kann kannst kein keine konnen mein meine meinem meinen
    mich mir mit nach nicht noch nur oder ohne sehr sein seine sich sie sind soll uber und uns unser
    unter vom von vor wann warum was weil welche welcher wenn wer werden wie wir wird wo wurde zu
    zum zur`,
  french: `au aux avec ce ces cette comme comment dans de des donc du elle elles en est et etre eux il
    ils je la le les leur lui ma mais mes moi mon ne nos notre nous ou par pas plus pour pourquoi
    quand que quel quelle qui quoi sa sans ses sont suis sur ta te tes toi ton tu un une vos votre
    vous y`,
  spanish: `al como con cual cuando de del donde el ella ellos en es esta este esto hay la las lo los
    mas mi mis muy no nos o para pero por porque que quien se ser si sin sobre su sus tambien tu tus
    un una unas unos y ya yo`,
  portuguese: `ao aos com da das de do dos ela ele em esse esta este eu isso mais mas meu minha na nao
    nas no nos o onde os ou para pela pelo por porque qual quando que quem se sem ser seu sua tambem
    um uma voce`,
  italian: `alla anche che chi ci come con cosa cui da dal dalla dei del della delle di dove e ed gli ho
    il in io la le lo loro ma mi mia mie miei mio nel nella non o per perche piu quale quando quello
    questa questo sei si sono su sua suo ti tu un una uno voi`,
  dutch: `aan als bij dan dat de deze dit door een en er ge geen had heb hebben heeft het hij hoe
    ik in is ja je jij kan maar met mij mijn naar niet nog of om onder ook op over te tot uit van
    voor waar waarom wat we wel welke wie wij worden zal ze zich zij zijn zo`,
};

const functionWords: ReadonlySet<string> = new Set(Object.values(lists).flatMap(wordsOf));

export function isFunctionWord(word: string): boolean {
  return functionWords.has(word);
}
