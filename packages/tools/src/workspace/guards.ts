/** Files and folders that need more than a rule: those that programs run or take settings from. */
import { lstat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { isWithin, realPathOf } from '@relay/processes';
import { compileGlob } from '@relay/core';

/** Settings and hooks of version control. Nobody edits them with a patch. */
const versionControl: ReadonlySet<string> = new Set(['.git', '.hg', '.svn', '.jj', '.bzr']);

/** Folders with settings or programs of other programs, at any depth. */
const guardedFolders: ReadonlySet<string> = new Set(
  (
    '.aws .bundle .cargo .claude .config .cursor .devcontainer .direnv .docker .emacs.d .fleet .gnupg .gradle ' +
    '.husky .idea .kube .local .m2 .mise .mvn .pip .ssh .terraform .vim .vscode .yarn .zed'
  ).split(' '),
);

/**
 * Files that shells, editors and package managers run or take settings from. `.gitattributes` selects
 * the programs that git runs for a file; `.gitmodules` selects repositories and how to update them.
 */
const guardedFiles: ReadonlySet<string> = new Set(
  (
    '.autoenv .autoenv.zsh .bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .condarc .curlrc .dir-locals.el .emacs .envrc .exrc .gdbinit .gemrc ' +
    '.git-credentials .gitattributes .gitconfig .gitmodules .hgrc .inputrc .irbrc .kshrc .lesskey .lfsconfig ' +
    '.lldbinit .login .logout .lvimrc .mcp.json .mise.toml .mkshrc .netrc .nvim.lua .pnpmfile.mjs .pryrc ' +
    '.psqlrc .pydistutils.cfg .rtx.toml .screenrc .sqliterc .terraformrc .tmux.conf .tool-versions ' +
    '.npmrc .nvimrc .pnp.cjs .pnp.loader.mjs .pnpmfile.cjs .profile .pypirc .tcshrc .vimrc .wgetrc ' +
    '.xinitrc .xprofile .xsession .yarnrc .yarnrc.yml .zlogin .zlogout .zprofile .zshenv .zshrc ' +
    'mise.toml pip.conf rust-toolchain rust-toolchain.toml terraform.rc'
  ).split(' '),
);

export type PatchGuard =
  /** No patch changes it. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** A person must approve the patch, whatever allows it. */
  | { readonly kind: 'asked'; readonly reason: string };

/** What a patch of this file needs beyond a rule; undefined if it needs nothing else. */
export async function patchGuard(root: string, target: string): Promise<PatchGuard | undefined> {
  if (target === root) {
    return { kind: 'refused', reason: 'The workspace itself is a folder, not a file' };
  }
  const path = relative(root, target).replaceAll(sep, '/');
  // Some file systems ignore case and invisible characters.
  const names = path.split('/').map((name) => name.normalize('NFKC').replaceAll(/\p{Cf}/gu, ''));
  const lower = names.map((name) => name.toLowerCase());
  if (lower.some((name) => versionControl.has(name))) {
    const reason = `${path} belongs to git and configures which programs git runs`;
    return { kind: 'refused', reason };
  }
  const name = lower.at(-1) ?? '';
  if (guardedFiles.has(name) || lower.some((each) => guardedFolders.has(each))) {
    return { kind: 'asked', reason: `programs run or are configured by ${path}` };
  }
  // Git takes a folder with HEAD, objects and refs for a repository, and runs what its config says.
  if (name === 'head' || (await isInRepository(root, target))) {
    return { kind: 'asked', reason: `${path} is or would become a part of a git repository` };
  }
  return undefined;
}

/** Whether a folder on the way to the file is a git repository without a `.git`. */
async function isInRepository(root: string, target: string): Promise<boolean> {
  for (let folder = dirname(target); isWithin(root, folder); folder = dirname(folder)) {
    const [head, ...rest] = await Promise.all(
      ['HEAD', 'objects', 'commondir'].map((each) => exists(join(folder, each))),
    );
    if (head === true && rest.includes(true)) return true;
    if (folder === root) return false;
  }
  return false;
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

export interface HiddenNames {
  /** Folders that no command may name. */
  readonly hidden: readonly string[];
  /** May lie in a hidden folder. */
  readonly home: string;
}

/** Links are followed for so many words; the rest is compared as text. */
const maxFollowed = 500;
const maxFolders = 8;
const wordsPerTurn = 1_000;
const betweenWords = /[\s;&|<>()`=:,@{}]+/;
/** After these words comes a folder that later names may be relative to. */
const folderChangers = /^(?:cd|pushd|-C|--directory|--cwd|--chdir|--prefix)$/;
/** A `cd` without a folder. */
const goesHome = /(?<![\w./-])cd(?:[^\S\n]+-[-\w]*)*[^\S\n]*(?:$|[;&|()<>}#\n])/;
/** What shows the environment and the memory of a process, or leads to any file. */
const processFiles = ['environ', 'mem', 'root', 'cwd', 'task', 'map_files'];

/**
 * The word of a command by which it names a hidden folder or the environment of a process. Quotes,
 * links, globs, `~`, `$PWD` and `cd` are taken into account; a name that the command computes is not
 * found.
 */
export async function hiddenNameIn(
  command: string,
  cwd: string,
  { hidden, home }: HiddenNames,
): Promise<string | undefined> {
  const text = command
    .replaceAll('\\\n', '')
    .replaceAll(/["'\\]/g, '')
    .replaceAll(/\$(?:\{PWD\}|PWD\b)/g, cwd)
    .replaceAll(/\$(?:\{HOME\}|HOME\b)/g, home);
  const words = text.split(betweenWords);
  const folders = new Set(goesHome.test(text) ? [cwd, home] : [cwd]);
  for (const [index, word] of words.entries()) {
    if (word === '') continue;
    if (index % wordsPerTurn === wordsPerTurn - 1) await setImmediate();
    const expanded = word.replace(/^~(?=\/|$)/, home);
    const changesFolder = folderChangers.test(words[index - 1] ?? '');
    for (const folder of Array.from(folders)) {
      const path = join(expanded.startsWith('/') ? '/' : folder, expanded);
      // A link can lead there, too; what does not exist or has a glob leads nowhere else.
      const paths = new Set([path, index < maxFollowed ? await realPathOf(path) : path]);
      for (const each of paths) {
        if (isHidden(each, hidden, home) || isProcessFile(each)) return word;
        if (changesFolder && folders.size < maxFolders) folders.add(each);
      }
    }
  }
  return undefined;
}

function isHidden(path: string, hidden: readonly string[], home: string): boolean {
  if (isWithin(home, path)) return false;
  const names = namesOf(path);
  return hidden.some((folder) => namesOf(folder).every((name, index) => mayBe(names[index], name)));
}

function isProcessFile(path: string): boolean {
  const [first, , third] = namesOf(path);
  return mayBe(first, 'proc') && processFiles.some((name) => mayBe(third, name));
}

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '');
}

/** Whether a name, which may be a glob, is or matches another one. */
function mayBe(pattern: string | undefined, name: string): boolean {
  if (pattern === undefined || pattern === name) return pattern === name;
  if (!/[*?[]/.test(pattern)) return false;
  const glob = compileGlob(pattern, 'deny');
  return glob.fault !== undefined || glob.matches(name);
}
