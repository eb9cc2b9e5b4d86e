/**
 * Words that hold sentences together and say nothing about what they are about. They are found like
 * any other, but a question that has better words is not looked up by them. What means something in
 * another of these languages is not among them: "die", "war", "hat" and "son".
 */
import { wordsOf } from './words.ts';

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
