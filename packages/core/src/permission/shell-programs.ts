/*
 * What we know about programs that run other programs. Denying looks through all of them; granting
 * trusts none of them to a wildcard. A program that is missing here is taken at its word.
 */

export interface Wrapper {
  /** Words that stand before the wrapped command and are not options: `timeout 5`, `ssh host`. */
  readonly operands: number;
  /** It wraps a command only as one of these subcommands. */
  readonly only?: readonly string[];
  /** The wrapped command gets arguments that its text does not show. */
  readonly feeds?: true;
}

const plain: Wrapper = { operands: 0 };
const afterOne: Wrapper = { operands: 1 };
const feeding: Wrapper = { operands: 0, feeds: true };

const PLAIN_WRAPPERS =
  'aa-exec arch builtin bunx busybox bwrap capsh caffeinate catchsegv ccache chpst chronic command ' +
  'cross-env dbus-run-session doas dotenv eatmydata env exec fakeroot firejail i386 ionice linux32 linux64 jobs ' +
  'ltrace nice nocache nohup npx nsenter numactl pipx pkexec pnpx proot prlimit proxychains ' +
  'proxychains4 rlwrap runuser script setarch setpriv setsid softlimit stdbuf strace su sudo ' +
  'sudoedit systemd-inhibit systemd-run time torify torsocks toybox tsocks unbuffer unshare uvx ' +
  'valgrind xvfb-run';
const WRAPPERS_AFTER_ONE =
  'chroot chrt coproc flock perf ssh start-stop-daemon taskset timeout trickle';

export const WRAPPERS: ReadonlyMap<string, Wrapper> = new Map([
  ...PLAIN_WRAPPERS.split(' ').map((name) => [name, plain] as const),
  ...WRAPPERS_AFTER_ONE.split(' ').map((name) => [name, afterOne] as const),
  ...['xargs', 'parallel', 'entr', 'watch', 'sem'].map((name) => [name, feeding] as const),
  ...['npm', 'pnpm', 'yarn', 'bun', 'mise', 'asdf', 'rtx', 'nix'].map(
    (name) => [name, { operands: 1, only: ['exec', 'x', 'dlx', 'shell'] }] as const,
  ),
  ...['uv', 'poetry', 'rye', 'pdm', 'hatch', 'pipenv', 'conda', 'mamba', 'bundle'].map(
    (name) => [name, { operands: 1, only: ['run', 'exec'] }] as const,
  ),
  ...['docker', 'podman', 'nerdctl', 'kubectl', 'oc', 'lxc', 'direnv'].map(
    (name) => [name, { operands: 2, only: ['exec', 'run', 'debug'] }] as const,
  ),
]);

/** Programs whose first operand is a file of code, unless an option hands them code directly. */
export const INTERPRETERS: ReadonlySet<string> = new Set(
  (
    'ash bash csh dash fish guile julia ksh lua luajit mksh node nodejs osascript perl php powershell ' +
    'pwsh pypy python r rbash rscript ruby sh tclsh tcsh ts-node tsx wish yash zsh'
  ).split(' '),
);

/** Shells: their arguments may be text of the language that deny rules are written about. */
export const SHELLS: ReadonlySet<string> = new Set(
  'ash bash csh dash fish ksh mksh rbash sh tcsh yash zsh'.split(' '),
);

/** Commands that take code, or change what later commands mean, in any of their arguments. */
export const EVALUATORS: ReadonlySet<string> = new Set(
  (
    '. alias at awk batch bind bun compgen complete crontab declare deno ed emacs enable eval ex ' +
    'expect export fc gawk gdb getopts ghci gmake hash history irb jshell let local m4 make mapfile ' +
    'mawk mysql nawk nvim psql read readarray readonly scala screen sed set shopt source sqlite swift ' +
    'tmux trap typeset unalias unset vi vim'
  ).split(' '),
);

/** Of those, the ones that run text of the shell's own language. */
export const SHELL_EVALUATORS: ReadonlySet<string> = new Set(
  (
    '. alias at batch bind compgen complete declare enable eval fc hash history let mapfile readarray ' +
    'source trap typeset'
  ).split(' '),
);

/** Programs whose second word names what they do. */
export const COMMANDS_OF_COMMANDS: ReadonlySet<string> = new Set(
  (
    'apt apt-get aws az brew bun bundle cargo conda deno docker dotnet gcloud gh git go helm kubectl ' +
    'nerdctl nix npm pip pipenv pnpm podman poetry rustup systemctl terraform uv yarn'
  ).split(' '),
);

/** Options after which another command begins, in whatever program. */
export const COMMAND_OPTIONS: ReadonlySet<string> = new Set(
  '-exec -execdir -ok -okdir --exec --exec-batch'.split(' '),
);

/** Options by which a program that only reads comes to run or to write. */
const ACTING_OPTIONS: ReadonlyMap<string, readonly string[]> = new Map([
  [
    'find',
    ['-exec', '-execdir', '-ok', '-okdir', '-delete', '-fprint', '-fprint0', '-fprintf', '-fls'],
  ],
  ['fd', ['-x', '-X', '--exec', '--exec-batch']],
  ['fdfind', ['-x', '-X', '--exec', '--exec-batch']],
  [
    'git',
    [
      '-c',
      '-C',
      '-O',
      '-x',
      '--config-env',
      '--exec',
      '--exec-path',
      '--ext-diff',
      '--git-dir',
      '--open-files-in-pager',
      '--output',
      '--receive-pack',
      '--template',
      '--textconv',
      '--upload-pack',
      '--work-tree',
    ],
  ],
  ['man', ['-P', '-H', '--pager', '--html']],
  ['printf', ['-v']],
  ['rg', ['--pre', '--hostname-bin']],
  ['rsync', ['-e', '--rsh', '--rsync-path']],
  ['scp', ['-S', '-o']],
  ['sdiff', ['-o', '--output']],
  ['date', ['-s', '--set']],
  ['split', ['--filter']],
  ['sort', ['-o', '-T', '--output', '--compress-program', '--temporary-directory']],
  [
    'tar',
    [
      '-I',
      '-F',
      '--to-command',
      '--checkpoint-action',
      '--use-compress-program',
      '--rsh-command',
      '--info-script',
      '--new-volume-script',
    ],
  ],
  ['tree', ['-o']],
  ['yq', ['-i', '--inplace']],
  ['zip', ['-T', '-TT', '--unzip-command']],
]);

const MAX_NAME = 64;

/** The name that a table knows a program by: no folder, small letters, no version. */
export function programName(word: string): string {
  const base = word.slice(word.lastIndexOf('/') + 1).toLowerCase();
  if (base.length > MAX_NAME) return base;
  const name = base.replace(/\.exe$/, '');
  return name.replace(/(?<=[a-z])-?\d[\d.]*$/, '');
}

/** Whether the words after a wrapper's name make it one; an option may stand before a subcommand. */
export function isWrapping(
  { only }: Wrapper,
  words: readonly { readonly text: string }[],
): boolean {
  if (only === undefined) return true;
  let options = 0;
  for (const [at, { text }] of words.entries()) {
    if (text.startsWith('-')) options += 1;
    else if (only.includes(text)) return true;
    else if (at >= 2 * options) return false;
  }
  return false;
}

/** Whether some word may be an option by which the program acts; abbreviations count. */
export function actsByOption(
  program: string,
  words: readonly { readonly text: string; readonly globs: boolean }[],
): boolean {
  const options = ACTING_OPTIONS.get(program);
  if (options === undefined) return false;
  // A name that a glob finds may begin with a dash, too.
  return words.some(
    ({ text, globs }) =>
      (globs && /^[*?[]/.test(text)) || options.some((option) => mayBeOption(option, text)),
  );
}

function mayBeOption(option: string, word: string): boolean {
  if (!word.startsWith('-') || word === '-' || word === '--') return false;
  if (option.startsWith('--'))
    return word.startsWith('--') && option.startsWith(word.split('=', 1)[0]!);
  // Short options come in bundles; long names with one dash, as find has them, stand alone.
  if (option.length > 2) return word === option;
  return !word.startsWith('--') && word.includes(option.slice(1));
}
