/*
 * A deny or ask pattern read as a command: a program, its options and its operands. It matches commands
 * that are written in another way, and tells which commands it may be about.
 *
 * Rules
 *  - Options match in any order and in any bundle: `rm -rf *` matches `rm -r x -f`. A long option
 *    matches its abbreviations, and its short form where the table below knows it.
 *  - The pattern may be about a command (`concerns`) with the same program if each option and each
 *    literal operand of the pattern may be in it, in any order and in any folder. Such a command is
 *    never allowed without a person.
 */
import { type Glob, compileGlob, PatternCache } from '../glob/glob.ts';
import { expandAlternatives } from '../glob/pattern-text.ts';
import { normalizePath, samePath } from '../path.ts';
import { spendSteps } from '../step-budget.ts';
import { programName } from './programs.ts';
import { hasSubcommands } from './subcommands.ts';
import { EXPANSION } from './words.ts';

/** Short options and their long names; `r` and `R` are the same option if their names are. */
const LONG_NAMES: ReadonlyMap<string, ReadonlyMap<string, string>> = new Map(
  `
chgrp R=recursive c=changes f=quiet v=verbose h=no-dereference
chmod R=recursive c=changes f=quiet v=verbose
chown R=recursive c=changes f=quiet v=verbose h=no-dereference
cp R=recursive r=recursive a=archive f=force i=interactive l=link n=no-clobber p=preserve s=symbolic-link t=target-directory u=update v=verbose
curl o=output O=remote-name X=request d=data T=upload-file k=insecure L=location s=silent S=show-error H=header F=form u=user x=proxy K=config f=fail i=include I=head v=verbose A=user-agent b=cookie c=cookie-jar
git add A=all f=force p=patch u=update v=verbose n=dry-run
git branch d=delete D=delete f=force m=move M=move c=copy a=all r=remotes v=verbose u=set-upstream-to
git checkout f=force q=quiet t=track d=detach m=merge p=patch
git clean f=force d=d x=x X=X n=dry-run q=quiet i=interactive e=exclude
git commit a=all m=message n=no-verify F=file C=reuse-message s=signoff S=gpg-sign v=verbose q=quiet e=edit
git push f=force d=delete u=set-upstream n=dry-run v=verbose q=quiet o=push-option 4=ipv4 6=ipv6
git reset q=quiet p=patch N=intent-to-add
kubectl n=namespace f=filename A=all-namespaces l=selector o=output R=recursive w=watch
ln f=force s=symbolic i=interactive n=no-dereference v=verbose
mv f=force i=interactive n=no-clobber t=target-directory u=update v=verbose
npm g=global f=force D=save-dev S=save E=save-exact w=workspace
rm R=recursive r=recursive f=force i=interactive I=interactive v=verbose d=dir
sed i=in-place n=quiet e=expression f=file E=regexp-extended r=regexp-extended s=separate z=null-data
wget O=output-document o=output-file q=quiet P=directory-prefix r=recursive c=continue
`
    .trim()
    .split('\n')
    .map((line) => {
      const words = line.split(' ');
      const first = words.findIndex((word) => word.includes('='));
      const pairs = words.slice(first).map((pair) => pair.split('=') as [string, string]);
      return [words.slice(0, first).join(' '), new Map(pairs)] as const;
    }),
);

/** Programs whose options are words after a single dash. */
const WORD_OPTIONS: ReadonlySet<string> = new Set(
  'cc clang clang++ convert ffmpeg find g++ gcc go java javac ld magick openssl terraform tofu xcodebuild'.split(
    ' ',
  ),
);
const BUNDLE = /^-[A-Za-z0-9]{1,8}$/;
const MAX_ALTERNATIVES = 32;
/** What it costs to read a pattern, a word of a command, and to look for an option. */
const PATTERN_STEPS = 500;
const PART_STEPS = 100;
const OPTION_STEPS = 300;
const WORD_STEPS = 10;

/** A command that a text may run, prepared for comparison. */
export class DeniableCommand {
  readonly name: string;
  readonly program: string;
  /** Without options, in order. */
  readonly operands: readonly string[];
  readonly options: readonly string[];
  #parts: ReadonlySet<string> | undefined;

  constructor(name: string, words: readonly string[]) {
    this.name = name.slice(name.lastIndexOf('/') + 1).toLowerCase();
    this.program = programName(name);
    const end = words.indexOf('--');
    const isOption = (word: string, at: number): boolean =>
      word.startsWith('-') && word.length > 1 && (end < 0 || at < end);
    this.options = words.filter(isOption);
    this.operands = words.filter((word, at) => !isOption(word, at) && at !== end);
  }

  /** What an operand of a pattern may be equal to: words, their values, paths and file names. */
  get parts(): ReadonlySet<string> {
    if (this.#parts !== undefined) return this.#parts;
    spendSteps(PART_STEPS * (this.operands.length + this.options.length));
    const parts = new Set<string>();
    for (const word of [...this.operands, ...this.options]) {
      // `if=x`, `HEAD:x`, `-d @x`
      for (const part of [
        word,
        ...['=', ':', '@'].map((mark) => word.slice(word.indexOf(mark) + 1)),
      ]) {
        const path = normalizePath(part);
        for (const form of [part, path, path.slice(path.lastIndexOf('/') + 1)]) parts.add(form);
      }
    }
    this.#parts = parts;
    return parts;
  }
}

const known = new PatternCache<DenyPattern>();

export class DenyPattern {
  readonly #forms: readonly PatternForm[];
  /** There are too many alternatives to look at. */
  readonly #unread: boolean;

  static of(pattern: string): DenyPattern {
    const found = known.get(pattern) ?? new DenyPattern(pattern);
    if (known.get(pattern) === undefined) known.add(pattern, found);
    return found;
  }

  private constructor(pattern: string) {
    const alternatives = expandAlternatives(pattern);
    this.#unread = alternatives === undefined || alternatives.length > MAX_ALTERNATIVES;
    this.#forms = this.#unread ? [] : (alternatives ?? []).map((text) => new PatternForm(text));
  }

  /** Whether a command is one of the pattern with its options in another order or form. */
  matches(command: DeniableCommand): boolean {
    return this.#forms.some((form) => form.matches(command));
  }

  /** @param targets Of redirections in the same text. */
  concerns(command: DeniableCommand, targets: DeniableCommand): boolean {
    return this.#unread || this.#forms.some((form) => form.concerns(command, targets));
  }

  /** Whether one of these names is the program of the pattern. */
  names(words: ReadonlySet<string>): boolean {
    return this.#forms.some((form) => form.names(words));
  }
}

type Presence = 'present' | 'possible' | 'absent';

class PatternForm {
  readonly #name: string;
  readonly #nameGlob: Glob | undefined;
  readonly #options: readonly string[];
  readonly #operands: readonly string[];
  readonly #residue: Glob | undefined;

  constructor(pattern: string) {
    spendSteps(PATTERN_STEPS);
    const [head = '', ...tokens] = pattern.trim().split(/\s+/);
    const name = withoutStar(head.slice(head.lastIndexOf('/') + 1)).toLowerCase();
    this.#name = name;
    this.#nameGlob = isLiteral(name) || name === '' ? undefined : glob(name);
    const isOption = (token: string): boolean => /^-./.test(token) && isLiteral(withoutStar(token));
    this.#options = tokens.filter(isOption);
    this.#operands = tokens.filter((token) => !isOption(token) && token !== '--');
    const last = tokens.at(-1) ?? '';
    const star = isOption(last) && last.endsWith('*') ? '*' : '';
    this.#residue =
      this.#options.length === 0
        ? undefined
        : glob([name || '*', ...this.#operands].join(' ') + star);
  }

  matches(command: DeniableCommand): boolean {
    if (this.#residue === undefined || !this.#isProgram(command)) return false;
    this.#spendOn(command);
    if (!this.#options.every((option) => presence(option, command) === 'present')) return false;
    return [command.name, command.program].some((name) =>
      [command.operands, command.operands.map(normalizePath)].some((operands) => {
        const text = [name, ...operands].join(' ');
        return this.#residue?.matches(text) === true || this.#residue?.matches(`${text} `) === true;
      }),
    );
  }

  concerns(command: DeniableCommand, targets: DeniableCommand): boolean {
    if (!this.#isProgram(command)) return false;
    this.#spendOn(command);
    if (this.#options.some((option) => presence(option, command) === 'absent')) return false;
    const operands = this.#operands.filter((token) => !/^\*+$/.test(token));
    if (this.#name === '' && operands.length + this.#options.length === 0) return false;
    // Which word is the subcommand is known for programs in our tables.
    const [subcommand] = operands;
    if (this.#name !== '' && subcommand !== undefined && hasSubcommands(command.program)) {
      if (!glob(subcommand).matches(command.operands[0] ?? '')) return false;
    }
    return operands.every((token) => hasOperand(token, command) || hasOperand(token, targets));
  }

  names(words: ReadonlySet<string>): boolean {
    if (this.#name === '') return false;
    if (this.#nameGlob === undefined)
      return words.has(this.#name) || words.has(programName(this.#name));
    for (const word of words) if (this.#nameGlob.matches(word)) return true;
    return false;
  }

  #spendOn({ options, operands }: DeniableCommand): void {
    const words = options.length + operands.length;
    spendSteps(OPTION_STEPS + this.#options.length * (OPTION_STEPS + WORD_STEPS * words));
  }

  #isProgram({ name, program }: DeniableCommand): boolean {
    if (this.#name === '') return true;
    if (this.#nameGlob !== undefined) return this.#nameGlob.matches(name);
    return this.#name === name || programName(this.#name) === program;
  }
}

function presence(token: string, command: DeniableCommand): Presence {
  const { options, program } = command;
  const option = withoutStar(token);
  const isOpen = option !== token;
  if (options.some((word) => word === option || (isOpen && word.startsWith(option))))
    return 'present';
  if (WORD_OPTIONS.has(program)) {
    const bare = option.replace(/^--?/, '');
    const isSame = (word: string): boolean => word.replace(/^--?/, '').split('=', 1)[0] === bare;
    return options.some(isSame) ? 'present' : 'absent';
  }
  const long = longNames(command);
  if (option.startsWith('--')) return longPresence(option, command, long);
  const letters = option.slice(1).split('');
  // A word such as `-delete` is no bundle.
  if (letters.length > 8 || new Set(letters).size < letters.length) return 'absent';
  const found = letters.map((letter) => shortPresence(letter, command, long));
  if (found.includes('absent')) return 'absent';
  return found.includes('possible') ? 'possible' : 'present';
}

function shortPresence(
  letter: string,
  { options }: DeniableCommand,
  long: ReadonlyMap<string, string> | undefined,
): Presence {
  const name = long?.get(letter);
  const same = [...(long ?? [])].filter(([, full]) => full === name).map(([short]) => short);
  const letters = [letter, ...same];
  let found: Presence = 'absent';
  for (const word of options) {
    if (word.startsWith('--')) {
      if (name !== undefined && isAbbreviation(word, `--${name}`)) return 'present';
      if (long === undefined) found = 'possible';
    } else if (letters.some((each) => word.includes(each))) {
      if (BUNDLE.test(word)) return 'present';
      found = 'possible';
    }
  }
  return found;
}

function longPresence(
  option: string,
  { options }: DeniableCommand,
  long: ReadonlyMap<string, string> | undefined,
): Presence {
  const [name = '', value] = option.split('=', 2);
  const letters = [...(long ?? [])].filter(([, full]) => `--${full}` === name);
  let found: Presence = 'absent';
  for (const word of options) {
    if (word.startsWith('--')) {
      if (isAbbreviation(word, name)) {
        const given = word.includes('=') ? word.slice(word.indexOf('=') + 1) : undefined;
        if (value === undefined || (given !== undefined && samePath(given, value)))
          return 'present';
        if (given === undefined) found = 'possible';
      }
    } else if (letters.some(([letter]) => word.includes(letter))) {
      if (BUNDLE.test(word)) return 'present';
      found = 'possible';
    } else if (long === undefined) {
      found = 'possible';
    }
  }
  return found;
}

/** `--rec` and `--recursive=yes` stand for `--recursive`. */
function isAbbreviation(word: string, name: string): boolean {
  const given = word.split('=', 1)[0]!;
  return given.length > 2 && name.startsWith(given);
}

function longNames({
  program,
  operands,
}: DeniableCommand): ReadonlyMap<string, string> | undefined {
  for (const operand of operands.slice(0, 3)) {
    const known = LONG_NAMES.get(`${program} ${operand}`);
    if (known !== undefined) return known;
  }
  return LONG_NAMES.get(program);
}

function hasOperand(token: string, { parts }: DeniableCommand): boolean {
  const star = withoutStar(token);
  const path = normalizePath(star);
  if (isLiteral(star)) {
    const forms = [star, path, path.slice(path.lastIndexOf('/') + 1)];
    if (forms.some((form) => parts.has(form))) return true;
    if (star === token) return false;
  }
  const patterns = [token, token.replace(/^(?:\.\/)+/, '')].map(glob);
  for (const part of parts) if (patterns.some((pattern) => pattern.matches(part))) return true;
  return false;
}

function glob(pattern: string): Glob {
  return compileGlob(pattern, 'deny');
}

function withoutStar(token: string): string {
  return token.replace(/\*+$/, '');
}

function isLiteral(token: string): boolean {
  return !/[*?[\]{}()\\]/.test(token);
}

const TOKEN = /[^\s;&|()<>{}=,`$'"\\:!@#%^*?[\]]+/g;

/** The names of programs that a word may contain: `--run=rm`, `"cd x; rm y"`, `-crm`. */
export function namesIn(word: string): readonly string[] {
  const tokens = word.replaceAll(EXPANSION, '').match(TOKEN) ?? [];
  return tokens.flatMap((token) => {
    const plain = /^-[^-]/.test(token) ? [token, token.slice(2)] : [token];
    return plain.flatMap((text) => [
      text.slice(text.lastIndexOf('/') + 1).toLowerCase(),
      programName(text),
    ]);
  });
}
