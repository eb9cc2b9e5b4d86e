/*
 * Variables whose value decides what runs, or how the rest of a text is read: start files, search
 * paths, hooks, options and helpers of programs, and integer variables of bash, which evaluate what is
 * assigned to them. Others are assumed to be data.
 */

const SHELL_VARIABLES =
  'AUTO_RESUME CHILD_MAX COMPREPLY DIRSTACK ENV EXECIGNORE FCEDIT FIGNORE FUNCNAME FUNCNEST GROUPS HISTCMD HISTCHARS HOME ' +
  'IFS IGNOREEOF INPUTRC LINENO MAILCHECK OPTERR OPTIND POSIXLY_CORRECT RANDOM SECONDS SHELLOPTS ' +
  'SRANDOM TEXTDOMAIN TEXTDOMAINDIR TIMEFORMAT TMOUT TMPDIR';
const PROGRAM_VARIABLES =
  'AR AS AWKLIBPATH BROWSER CC CPP CXX DISPLAY EXINIT GOROOT KSH_VERSION LD LESSOPEN LESSCLOSE LS_OPTIONS MAKE ' +
  'MAKEFILES NODE_EXTRA_CA_CERTS PERLLIB PERL5LIB PERL5DB RUBYLIB RUSTC RUSTDOC SHELL TERM TERMCAP ' +
  'TERMINFO TERMINFO_DIRS VIMINIT VISUAL XENVIRONMENT';
const NAMES: ReadonlySet<string> = new Set(`${SHELL_VARIABLES} ${PROGRAM_VARIABLES}`.split(' '));
const FAMILIES =
  /^(?:BASH|PS\d$|PROMPT|GLOB|HIST|MAIL|LD_|DYLD_|GIT_|SSH_|SUDO_|LESS|MAN|PYTHON|PERL5?|RUBY|NODE_(?!ENV$)|NPM_|YARN_|PNPM_|CARGO|RUST|PIP_|UV_|JAVA|JDK_|_JAVA|MAVEN|GRADLE|LUA_|PHP|DOCKER_|KUBE|XDG_|OPENSSL_|GCONV|CMAKE_|COREPACK|ELECTRON_|DENO_|BUN_|HELM_|TF_|RSYNC_|TAR_|ZIP|UNZIP|MAKE|GO(?:ENV|FLAGS|PROXY|TOOLCHAIN|BIN)$)/;
const ENDINGS =
  /(?:PATH|OPTS?|OPTIONS|FLAGS|EDITOR|PAGER|BROWSER|SHELL|RSH|ASKPASS|WRAPPER|COMMAND|CMD|RUNNER|HANDLER|PRELOAD|STARTUP|RC|RCFILE|CONFIG|CONF)$/;
const LOCALE = /^(?:LC_\w+|LANG|LANGUAGE)$/;
/** Locales with an encoding in which shell syntax reads as in ASCII. */
const PLAIN_LOCALE = /^(?:|C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF-?8|utf-?8))$/;

/** Whether a variable of this name decides what runs; `value` if it is known. */
export function changesWhatRuns(variable: string, value?: string): boolean {
  const name = variable.toUpperCase();
  if (LOCALE.test(name)) return value === undefined || !PLAIN_LOCALE.test(value);
  return NAMES.has(name) || FAMILIES.test(name) || ENDINGS.test(name);
}

const ASSIGNMENT = /^([A-Za-z_][^=[+]*)(?:\[[^]*?\])?\+?=([^]*)$/;

/** Whether a word assigns such a variable: `PATH=x`, `PS4+=x`, `BASH_FUNC_ls%%=() { x; }`. */
export function assignsWhatRuns(word: string): boolean {
  const [, name, value] = ASSIGNMENT.exec(word) ?? [];
  return name !== undefined && changesWhatRuns(name, value);
}
