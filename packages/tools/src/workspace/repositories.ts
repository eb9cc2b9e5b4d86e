/**
 * The git repositories of a workspace, and whether their settings run programs. Most such settings are
 * overridden by the environment (`environment.ts`). Those with names of their own, such as
 * `diff.<name>.textconv`, cannot be: a command that uses git then needs a person's approval.
 */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readerEnvironment } from '@relay/processes';
import { promisify } from 'node:util';

const run = promisify(execFile);
const limits = { repositories: 100, findMs: 10_000, configMs: 5_000, bytes: 4 * 1024 * 1024 };

/** Settings by which `git status`, `log`, `diff`, `show` or `blame` run programs, or `git <alias>`. */
const runsPrograms = new RegExp(
  '^(?:diff\\.external|core\\.alternaterefscommand|diff\\..*\\.(?:command|textconv)|' +
    'filter\\..*\\.(?:clean|smudge|process)|merge\\..*\\.driver|credential\\..*helper|' +
    '(?:man|browser|trailer|tar|hook)\\..*\\.(?:cmd|command|path))$',
  's',
);

export interface RepositoryCheck {
  /** The folders that contain a `.git`. */
  readonly folders: readonly string[];
  /** Why a person must approve a command that uses git here. */
  readonly problem?: string;
}

/** Whether a command may use git, as `go list -json` does. Quotes and backslashes do not hide its name. */
export function mayUseGit(command: string): boolean {
  const plain = command.replaceAll(/["'\\]/g, '');
  return /(?<![\w.-])(?:git|gh|glab|go|hub|tig)(?!\w)/i.test(plain) || command.includes("$'");
}

export async function checkRepositories(
  root: string,
  env: Readonly<Record<string, string>>,
): Promise<RepositoryCheck> {
  const found = await repositoriesIn(root);
  if (found === undefined) {
    return { folders: [], problem: 'the git repositories of the workspace cannot be listed' };
  }
  const folders = [...found, ...(await repositoryAbove(root))];
  if (folders.length > limits.repositories) {
    const problem = `the workspace has more than ${limits.repositories} git repositories to check`;
    return { folders: [], problem };
  }
  for (const folder of folders) {
    const problem = await problemIn(folder, env);
    if (problem !== undefined) return { folders, problem };
  }
  return { folders };
}

async function repositoriesIn(root: string): Promise<string[] | undefined> {
  const args = [root, '-iname', '.git', '-print0'];
  const options = { timeout: limits.findMs, maxBuffer: limits.bytes };
  const stdout = await run('find', args, options).then(
    (found) => found.stdout,
    // Folders that cannot be read, or were deleted meanwhile, cannot be used either.
    (error: { stdout?: string; killed?: boolean; code?: unknown }) =>
      error.code === 1 && error.killed !== true ? error.stdout : undefined,
  );
  return stdout?.split('\0').flatMap((path) => (path === '' ? [] : [dirname(path)]));
}

/** A workspace may be a part of a repository. */
async function repositoryAbove(root: string): Promise<string[]> {
  const folder = dirname(root);
  if (folder === root) return [];
  return (await exists(join(folder, '.git'))) ? [folder] : repositoryAbove(folder);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function problemIn(
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  try {
    const { stdout } = await run('git', ['config', '--list', '--show-scope', '-z'], {
      cwd: folder,
      env: { ...env, ...readerEnvironment([folder]) },
      timeout: limits.configMs,
      maxBuffer: limits.bytes,
    });
    const fields = stdout.split('\0');
    for (let at = 0; at + 1 < fields.length; at += 2) {
      const [key = '', ...lines] = fields[at + 1]?.split('\n') ?? [];
      const isOwn = fields[at] !== 'command';
      const isShellAlias = key.startsWith('alias.') && lines.join('\n').trimStart().startsWith('!');
      if (isOwn && (runsPrograms.test(key) || isShellAlias)) {
        return `the git repository in ${folder} has the setting ${key}, which runs a program`;
      }
    }
    return undefined;
  } catch (error) {
    // Without git there is nothing that could read the settings.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    return `the settings of the git repository in ${folder} cannot be read`;
  }
}
