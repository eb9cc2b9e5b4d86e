/*
 * Commands that evaluate a value or an argument as code, so that no rule can see what runs.
 *
 * Rules
 *  - Builtins that take the name of a variable evaluate its subscript (`test -v 'a[$(x)]'`), and some
 *    assign variables that decide what runs (`read PATH`).
 *  - An interpreter that does not run a script file runs code from an option or from its input.
 *  - `awk` and `sed` are read only as far as needed to see that they run nothing.
 *  - A word that may become an option or an operator at run time counts as one.
 */
import { hasSideEffectOption } from './options.ts';
import { INTERPRETERS, SHELLS, SHELL_EVALUATORS, wrapperFor } from './programs.ts';
import { hasSubcommands } from './subcommands.ts';
import { changesWhatRuns } from './variables.ts';
import { EXPANSION, type ShellWord } from './words.ts';

/** Programs that take code in several ways, from arguments and from their input. */
const CODE_TAKERS: ReadonlySet<string> = new Set(
  (
    'at batch clisp clojure crontab dc ed elixir emacs emacsclient erl ex expect gdb ghci gnuplot gvim iex irb ' +
    'jrunscript jshell ksh lldb m4 mariadb mongo mongosh mysql newgrp nvim ocaml pry psql racket ' +
    'rview rvim sbcl scala screen socat sqlite su tmux vi view vim vimdiff duckdb bpftrace stap wish'
  ).split(' '),
);
const AWKS: ReadonlySet<string> = new Set('awk gawk mawk nawk original-awk'.split(' '));
const SEDS: ReadonlySet<string> = new Set(['sed', 'gsed']);

/** Options that do not contain code and take no value, by interpreter. */
const PLAIN_OPTIONS: ReadonlyMap<string, RegExp> = new Map([
  ['python', /^-(?:[bBdEIOPqsSuvx]+|V|VV|-version|-help|h)$/],
  [
    'node',
    /^--?(?:v|version|help|h|c|check|test|watch|no-warnings|trace-warnings|enable-source-maps|experimental-strip-types|experimental-transform-types|expose-gc)$/,
  ],
  ['perl', /^-(?:c|v|w|T|W|-version|-help)$/],
  ['ruby', /^-(?:c|v|w|-version|-help)$/],
  ['php', /^-(?:l|v|i|m|-version)$/],
]);
const ANY_PLAIN_OPTION = /^--(?:version|help)$/;
/** Options that end the work of an interpreter, so that it needs no script. */
const ENDS_WORK = /^-(?:-version|-help|V|VV|v|-test)$/;
const INPUT_FILE = /^(?:-|\/dev\/(?:stdin|fd\/.*|tty)|\/proc\/.*|data:.*)$/;

/** Whether this command evaluates values or code, whatever its text says. */
export function evaluatesCode(program: string, rest: readonly ShellWord[]): boolean {
  if (CODE_TAKERS.has(program)) return true;
  if (AWKS.has(program)) return !isPlainAwk(rest);
  if (SEDS.has(program)) return !isPlainSed(rest);
  if (SHELL_EVALUATORS.has(program)) return true;
  if (SHELLS.has(program)) return !runsShellScript(program, rest);
  if (INTERPRETERS.has(program)) return !runsScript(program, rest);
  switch (program) {
    case 'bun':
    case 'deno':
      return rest.some(({ text }) =>
        /^(?:-e|-p|-pe|--eval.*|--print.*|eval|repl|exec|-)$/.test(text),
      );
    case 'make':
    case 'gmake':
      return rest.some(
        ({ text }, at) =>
          /^(?:-E.*|--eval.*)$/.test(text) ||
          (rest[at - 1]?.text.endsWith('f') === true && INPUT_FILE.test(text)),
      );
    case 'find':
    case 'fd':
    case 'fdfind':
      return rest.some(
        (word, at) => mayBeOption(word) && (word.splits || (at > 0 && !isOption(rest[at - 1]!))),
      );
    default:
      return evaluatesBuiltin(program, rest) || hasUnknownOptions(program, rest);
  }
}

/** Whether an argument with unknown words may add an option that runs a program. */
function hasUnknownOptions(program: string, rest: readonly ShellWord[]): boolean {
  if (!rest.some((word) => word.splits && mayBeOption(word))) return false;
  return hasSideEffectOption(program, [{ text: '-', globs: true }]);
}

function evaluatesBuiltin(program: string, rest: readonly ShellWord[]): boolean {
  switch (program) {
    case 'test':
    case '[':
      return evaluatesTest(rest);
    case 'printf':
      if (rest[0]?.text === '-v') return isUnsafeName(rest[1]);
      return rest[0] !== undefined && (varies(rest[0]) || rest[0].text.startsWith('-v'));
    case 'wait':
      return (
        rest.some((word) => word.expands || /^-[a-z]*p/.test(word.text)) && rest.some(isUnsafeName)
      );
    case 'read':
    case 'unset':
    case 'getopts':
    case 'export':
    case 'readonly':
    case 'local':
      if (rest.some(({ text }) => /^-\w*[inAC]/.test(text)) && program !== 'read') return true;
      return rest.some(isUnsafeName);
    case 'for':
    case 'select':
    case 'coproc':
      return isUnsafeName(rest[0]);
    case 'set':
      return rest.some((word, at) => isUnknownSetOption(word, rest[at - 1]));
    case 'shopt':
      return rest.some(({ text }) => !SHOPT_WORD.test(text));
    case 'function':
      return rest[0]?.text === 'command_not_found_handle';
    default:
      return program === 'command_not_found_handle';
  }
}

const SET_OPTIONS =
  /^(?:allexport|errexit|errtrace|functrace|monitor|noclobber|noexec|noglob|notify|nounset|pipefail|verbose|xtrace)$/;
const SHOPT_WORD =
  /^(?:-[supq]+|dotglob|failglob|globstar|inherit_errexit|lastpipe|nocaseglob|nocasematch|nullglob)$/;

/** `set -H`, `set -o posix` and the like change how the text after it is read. */
function isUnknownSetOption({ text, expands }: ShellWord, before: ShellWord | undefined): boolean {
  if (before !== undefined && /^[-+]\w*o$/.test(before.text)) return !SET_OPTIONS.test(text);
  if (before === undefined && expands) return true;
  return /^[-+]/.test(text) && !/^(?:--?|[-+][abCeEfmnoTuvx]+)$/.test(text);
}

const BINARY = /^(?:=|==|!=|<|>|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef|a|o)|\]|\))$/;

/** `-v` may also come from a value: `[ "$x" "$y" ]`, `[ -n $x ]`. */
function evaluatesTest(rest: readonly ShellWord[]): boolean {
  return rest.some((word, at) => {
    const next = rest[at + 1];
    if (word.splits || (word.globs && word.text !== ']')) return true;
    if (word.text === '-v') return next !== undefined && isUnsafeName(next) && next.text !== ']';
    return word.text.includes(EXPANSION) && next !== undefined && !BINARY.test(next.text);
  });
}

/** Whether a name has a subscript, is known only at run time, or decides what runs. */
function isUnsafeName(word: ShellWord | undefined): boolean {
  if (word === undefined) return false;
  const [name = '', ...value] = word.text.split('=');
  // Bash does not split the value of an assignment.
  if (name.includes('[') || name.includes(EXPANSION) || (word.splits && value.length === 0))
    return true;
  return changesWhatRuns(name, value.length === 0 ? undefined : value.join('='));
}

function runsScript(program: string, rest: readonly ShellWord[]): boolean {
  const plain =
    PLAIN_OPTIONS.get(program) ?? PLAIN_OPTIONS.get(program === 'nodejs' ? 'node' : 'python');
  for (const [at, word] of rest.entries()) {
    const { text } = word;
    if (!isOption(word)) return !varies(word) && !INPUT_FILE.test(text);
    if (program === 'python' && text === '-m') {
      const module = rest[at + 1];
      return (
        module !== undefined &&
        !varies(module) &&
        !/^(?:code|pdb|timeit|IPython)$/.test(module.text)
      );
    }
    if (ENDS_WORK.test(text)) return true;
    if (!ANY_PLAIN_OPTION.test(text) && plain?.test(text) !== true) return false;
  }
  return false;
}

const POSIX_SHELLS: ReadonlySet<string> = new Set(
  'ash bash dash hush ksh mksh osh rbash sh yash zsh'.split(' '),
);
const SHELL_OPTIONS = /^(?:[-+][abefhkmnuvx]*o?|--(?:norc|noprofile|posix))$/;

/** Whether a shell runs a file, not code from an option (`-c`) or from its input. */
function runsShellScript(program: string, rest: readonly ShellWord[]): boolean {
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at]!;
    if (!/^[-+]./.test(word.text)) return !varies(word) && !INPUT_FILE.test(word.text);
    if (ANY_PLAIN_OPTION.test(word.text)) return true;
    if (!POSIX_SHELLS.has(program) || !SHELL_OPTIONS.test(word.text)) return false;
    if (word.text.endsWith('o')) at += 1;
  }
  return false;
}

const AWK_OPTIONS = /^-(?:F.*|v.*)$/;

/** `system()`, pipes, `getline`, files of code and indirect calls run something else. */
function isPlainAwk(rest: readonly ShellWord[]): boolean {
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at]!;
    if (!isOption(word)) {
      return !varies(word) && !/system|getline|[|@]|printf?\b[^;}]*>/.test(word.text);
    }
    if (!AWK_OPTIONS.test(word.text)) return false;
    if (word.text.length === 2) at += 1;
  }
  return false;
}

const SED_OPTIONS = /^-(?:[nErsuz]*i?[nErsuz]*|-quiet|-silent|-in-place|-regexp-extended)$/;
const SED_ADDRESS = String.raw`(?:\d+|\$|/(?:\\.|[^/\\\n])*/)`;
const SED_COMMAND = String.raw`(?:${SED_ADDRESS}(?:,${SED_ADDRESS})?)? *!? *(?:[pdqDPGHhgxnN=]|s([^\w\s\\])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\\n])*\1[gpIi\d]*)?`;
const PLAIN_SED = new RegExp(`^\\s*${SED_COMMAND}\\s*$`);
const MAX_SED = 1_000;

/** Only single commands without `e` and `w`; scripts in files are not read. */
function isPlainSed(rest: readonly ShellWord[]): boolean {
  const scripts = rest.filter((_, at) => rest[at - 1]?.text === '-e');
  const operands = rest.filter((word, at) => !isOption(word) && rest[at - 1]?.text !== '-e');
  const options = rest.filter(isOption);
  if (!options.every(({ text }) => text === '-e' || SED_OPTIONS.test(text))) return false;
  const all = scripts.length > 0 ? scripts : operands.slice(0, 1);
  if (all.length === 0 || operands.some((word) => mayBeOption(word))) return false;
  return all.every(
    ({ text, expands }) => !expands && text.length <= MAX_SED && PLAIN_SED.test(text),
  );
}

function isOption({ text }: ShellWord): boolean {
  return text.startsWith('-') && text !== '-';
}

/** Whether a word may start with a dash at run time. */
function mayBeOption({ text, splits, globs }: ShellWord): boolean {
  return splits || text.startsWith(EXPANSION) || (globs && /^[*?[]/.test(text));
}

function varies({ expands, globs, hasBraceOrTilde }: ShellWord): boolean {
  return expands || globs || hasBraceOrTilde;
}

const ARITHMETIC_TEST = /^-(?:eq|ne|lt|le|gt|ge)$/;
const NUMBER = /^(?:-?\d+|\$[?#$])$/;

/** `[[ x -eq 1 ]]` evaluates both sides, `[[ -v a[x] ]]` the subscript. */
export function evaluatesCondition(words: readonly ShellWord[]): boolean {
  return words.some(({ text }, at) => {
    const next = words[at + 1];
    if (text === '-v') return next === undefined || isUnsafeName(next);
    if (!ARITHMETIC_TEST.test(text)) return false;
    return !NUMBER.test(words[at - 1]?.text ?? '') || !NUMBER.test(next?.text ?? '');
  });
}

/** Whether a word assigns to a subscript that is not a number: `a[x]=1`, `a=([x]=1)`. */
export function assignsSubscript({ text }: ShellWord): boolean {
  if (/^[A-Za-z_]\w*\[/.test(text)) {
    return !/^\w+\[\d+\]/.test(text) && (!text.includes(']') || /\]\+?=/.test(text));
  }
  return (
    text.startsWith('[') && !/^\[{1,2}$/.test(text) && (!text.includes(']') || /\]\+?=/.test(text))
  );
}

/** Programs that run none of their arguments and no code, unless an option makes them. */
const INERT: ReadonlySet<string> = new Set(
  (
    '[ [[ : basename break case cat cd cmp comm continue cp cut date df diff dirname du echo egrep exit false ' +
    'fgrep file fold for grep head id ls md5sum mkdir mv nl od printenv printf pwd readlink realpath ' +
    'return rg seq sha256sum sleep sort stat tac tail tee test touch tr tree true type uname uniq wc which whoami'
  ).split(' '),
);
const INERT_GIT: ReadonlySet<string> = new Set(
  'add blame commit describe diff grep log ls-files ls-tree rev-parse shortlog show status tag'.split(
    ' ',
  ),
);

/** Programs, builtins and keywords that do not run the program that an operand names. */
const OPERANDS_ARE_DATA: ReadonlySet<string> = new Set(
  (
    '7z ack actionlint ag autopep8 bat bg biome black brotli bunzip2 bzip2 cal chgrp chmod chown clang-format column csplit ' +
    'curl dd dig dirs disown dos2unix dprint eslint exa expand expr eza fd fg find flake8 fmt getopts gofmt goimports ' +
    'golangci-lint gpg gunzip gzip hadolint hexdump host iconv install isort jest jobs join jq kill less link ln ' +
    'local logger lsof man mkfifo mktemp mocha more mypy nslookup open oxfmt oxlint pandoc paste patch pgrep ping pkill ' +
    'playwright popd prettier prisma ps pushd pylint pyright pytest read readonly export rename rmdir rsync ruff ' +
    'rustfmt scp select set sha1sum sha512sum shasum shellcheck shift shopt shred shuf source split strings stylelint ' +
    'sum swiftlint sync tar trap truncate tsc umask unexpand unix2dos unlink unset unxz unzip unzstd ulimit ' +
    'vitest wait wget xmllint xxd xz yamllint yq zcat zip zstd rm'
  ).split(' '),
);

/**
 * Whether a program that is not known gets an operand that may be the program to run: `foo "$x"`.
 * `appends`: it gets more words than these.
 */
export function mayRunOperand(
  program: string,
  rest: readonly ShellWord[],
  appends: boolean,
): boolean {
  if (INERT.has(program) || OPERANDS_ARE_DATA.has(program) || hasSubcommands(program)) return false;
  const operand = rest.findIndex((word) => !isOption(word) && !varies(word));
  if (operand < 0 && appends) return true;
  const front = operand < 0 ? rest : rest.slice(0, operand);
  return front.some((word) => varies(word) && !(isOption(word) && word.text.includes('=')));
}

/** Whether a command certainly runs nothing that its arguments name. */
export function isInert(name: string, program: string, rest: readonly ShellWord[]): boolean {
  if (name.includes('/') && !/^(?:\/usr)?\/bin\/[^/]+$/.test(name)) return false;
  if (hasSideEffectOption(program, rest)) return false;
  return INERT.has(program) || (program === 'git' && INERT_GIT.has(rest[0]?.text ?? ''));
}

/** Names that are also common words, such as subcommands. */
const COMMON_WORDS: ReadonlySet<string> = new Set(
  'at batch dc ed ex expect r screen su view wish'.split(' '),
);

/** Whether a program would run code as an argument of a program that is not in our tables. */
export function runsCodeIfWrapped(program: string, rest: readonly ShellWord[]): boolean {
  if (SHELLS.has(program)) return true;
  if (COMMON_WORDS.has(program)) return false;
  if (wrapperFor(program) !== undefined && rest.some(varies)) return true;
  const isKnown =
    /^(?:find|fd|fdfind)$/.test(program) ||
    CODE_TAKERS.has(program) ||
    AWKS.has(program) ||
    INTERPRETERS.has(program);
  return isKnown && !SHELL_EVALUATORS.has(program) && evaluatesCode(program, rest);
}
