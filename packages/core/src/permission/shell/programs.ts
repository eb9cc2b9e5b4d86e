/*
 * Programs that run other programs. Deny rules look inside all of them; no wildcard of an allow rule
 * covers what they run. Programs that are not listed are assumed to run nothing else.
 */
import { mayHaveSubcommand } from './subcommands.ts';
import type { ShellWord } from './words.ts';

export interface Wrapper {
  /** The number of words before the wrapped command that are not options: `timeout 5`, `ssh host`. */
  readonly operands: number;
  /** Wraps a command only with one of these subcommands, which may follow their group. */
  readonly only?: readonly string[];
  /** The wrapped command gets arguments that are not in its text. */
  readonly appendsArguments?: true;
}

const plain: Wrapper = { operands: 0 };
const oneOperandWrapper: Wrapper = { operands: 1 };
const argumentAppendingWrapper: Wrapper = { operands: 0, appendsArguments: true };

const PLAIN_WRAPPERS =
  'aa-exec ansible arch builtin bunx busybox bwrap capsh caffeinate catchsegv ccache chpst chronic ' +
  'command concurrently cpulimit cross-env daemonize dbus-run-session doas dotenv dumb-init eatmydata ' +
  'env exec fakeroot firejail forever hyperfine i386 ionice jobs linux32 linux64 ltrace lxc-attach ' +
  'nice nix-shell nocache nohup npx nsenter numactl pkexec pnpx proot prlimit proxychains ' +
  'proxychains4 rlwrap runuser screen script setpriv setsid softlimit stdbuf strace su sudo sudoedit ' +
  'systemd-inhibit systemd-nspawn systemd-run time tini torify torsocks toybox tsocks unbuffer ' +
  'unshare uvx valgrind watchexec wine xvfb-run';
const WRAPPERS_AFTER_ONE =
  'chroot chrt coproc envdir faketime flock gosu perf s6-envdir s6-setuidgid setarch setuidgid sg ssh ' +
  'start-stop-daemon su-exec taskset timeout tmux trickle';

const wrappersWithSubcommands = (names: string, operands: number, only: string) =>
  names.split(' ').map((name) => [name, { operands, only: only.split(' ') }] as const);

const WRAPPERS: ReadonlyMap<string, Wrapper> = new Map<string, Wrapper>([
  ...PLAIN_WRAPPERS.split(' ').map((name) => [name, plain] as const),
  ...WRAPPERS_AFTER_ONE.split(' ').map((name) => [name, oneOperandWrapper] as const),
  ...['xargs', 'parallel', 'entr', 'watch', 'sem'].map(
    (name) => [name, argumentAppendingWrapper] as const,
  ),
  ...wrappersWithSubcommands('npm pnpm yarn bun gem mise asdf rtx', 1, 'exec x dlx shell'),
  ...wrappersWithSubcommands('nix guix flatpak snap pipx', 1, 'shell run develop environment'),
  ...wrappersWithSubcommands('uv poetry rye pdm hatch pipenv conda mamba bundle', 1, 'run exec'),
  ...wrappersWithSubcommands('docker podman nerdctl kubectl oc lxc direnv', 2, 'exec run debug'),
  ...wrappersWithSubcommands('apptainer singularity machinectl', 2, 'exec run shell'),
  ...wrappersWithSubcommands('git', 2, 'bisect submodule'),
  ...wrappersWithSubcommands('ip', 3, 'netns'),
]);

/** Words between a wrapper and its subcommand. */
const SUBCOMMAND_GROUPS: ReadonlySet<string> = new Set(['container', 'compose', 'pod', 'machine']);
/** The dynamic loader runs the program it is given. */
const LOADER = /^ld(?:-[\w.-]+)?\.so(?:\.\d+)?$/;

/** How a program wraps another one; undefined if it does not. */
export function wrapperFor(word: string): Wrapper | undefined {
  const name = baseName(word);
  return (
    WRAPPERS.get(name) ??
    WRAPPERS.get(programName(word)) ??
    (name.startsWith('ld') && LOADER.test(name) ? plain : undefined)
  );
}

/** Programs whose first operand is a file of code, unless an option contains the code. */
export const INTERPRETERS: ReadonlySet<string> = new Set(
  (
    'ash bash csh dash elvish fish groovy guile hush julia ksh lua luajit mksh node nodejs nu octave osascript ' +
    'osh perl php powershell pwsh pypy python r raku rbash rscript ruby sh tclsh tcsh ts-node tsx wish ' +
    'xonsh yash zsh'
  ).split(' '),
);

/** Shells, whose arguments may be shell text that deny rules are about. */
export const SHELLS: ReadonlySet<string> = new Set(
  'ash bash csh dash elvish fish hush ksh mksh nu osh powershell pwsh rbash sh tcsh xonsh yash zsh'.split(
    ' ',
  ),
);

/** Commands that take code in any argument, or change what later commands mean. */
export const EVALUATORS: ReadonlySet<string> = new Set(
  (
    '. alias at awk batch bind bun compgen complete crontab dc declare deno duckdb ed elixir emacs enable erl ' +
    'eval ex expect export fc gawk gdb getopts ghci gmake gnuplot gsed gvim hash history iex irb ' +
    'jrunscript jshell just let lldb local m4 make mapfile mariadb mawk mongo mongosh mysql nawk nvim psql rake read ' +
    'readarray readonly rview rvim scala screen sed set shopt source sqlite swift tmux trap typeset ' +
    'unalias unset vi view vim vimdiff'
  ).split(' '),
);

/** Those of them that run shell text. */
export const SHELL_EVALUATORS: ReadonlySet<string> = new Set(
  (
    '. alias at batch bind compgen complete declare enable eval fc hash history let mapfile readarray ' +
    'source trap typeset'
  ).split(' '),
);

/** Options of a wrapper whose value is a command, at any position. */
export const WRAPPER_OPTION = /^(?:-[a-z]*c|--(?:command|run|exec|entrypoint|program))$/;

/** Options after which another command starts, in any program. */
export const COMMAND_OPTIONS: ReadonlySet<string> = new Set(
  '-exec -execdir -ok -okdir --exec --exec-batch'.split(' '),
);

const MAX_NAME = 64;

/** The name of a program as in the tables here: without folder and version, in lower case. */
export function programName(word: string): string {
  const name = baseName(word);
  return name.length > MAX_NAME ? name : name.replace(/(?<=[a-z])-?\d[\d.]*$/, '');
}

function baseName(word: string): string {
  return word
    .slice(word.lastIndexOf('/') + 1)
    .toLowerCase()
    .replace(/\.exe$/, '');
}

/** The number of words before the wrapped command that are not options. */
export function operandsOf(
  { operands }: Wrapper,
  words: readonly { readonly text: string }[],
): number {
  return operands + (SUBCOMMAND_GROUPS.has(words[0]?.text ?? '') ? 1 : 0);
}

/** Whether the words after the name make it a wrapper. */
export function isWrapping({ only }: Wrapper, name: string, words: readonly ShellWord[]): boolean {
  if (only === undefined) return true;
  return mayHaveSubcommand(programName(name), words, ([first = '', second = '']) =>
    only.includes(SUBCOMMAND_GROUPS.has(first) ? second : first),
  );
}
