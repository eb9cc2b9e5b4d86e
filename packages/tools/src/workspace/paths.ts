/**
 * Paths in a workspace. A path is normalised, then its links are followed, and a result outside the
 * workspace is refused. A resolved path is opened without following links, and the opened file is
 * checked to be at that path: a link that is swapped in between is never followed.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { PathResolution, ToolContext } from '@relay/core';
import { isWithin } from '@relay/processes';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** The message is written for the model. */
export class PathRefused extends Error {
  override readonly name = 'PathRefused';
}

/** The real path behind a path. `root` must be a real path itself. */
export async function resolveInWorkspace(root: string, path: string): Promise<string> {
  if (path.includes('\0')) throw new PathRefused('The path contains a NUL character');
  const resolved = await followLinks(resolve(root, path), path);
  if (isWithin(root, resolved)) return resolved;
  throw new PathRefused(`${JSON.stringify(path)} lies outside the workspace`);
}

/** Resolves the path parameters of a call; parameters that are left out stay out. */
export async function resolvePaths(
  root: string,
  parameters: Readonly<Record<string, string | undefined>>,
): Promise<PathResolution> {
  const paths: Record<string, string> = {};
  try {
    for (const [name, path] of Object.entries(parameters)) {
      if (path !== undefined) paths[name] = await resolveInWorkspace(root, path);
    }
    return { ok: true, resolvedPaths: { root, paths } };
  } catch (error) {
    if (error instanceof PathRefused) return { ok: false, problem: error.message };
    throw error;
  }
}

/** Resolves a parameter again when its call runs, and refuses one that now resolves to a different path. */
export async function resolveAllowed(
  root: string,
  parameter: string,
  path: string,
  { resolvedPaths }: ToolContext,
): Promise<string> {
  const resolved = await resolveInWorkspace(root, path);
  const allowed = resolvedPaths?.[parameter];
  if (allowed === undefined || allowed === resolved) return resolved;
  throw new PathRefused(
    `${JSON.stringify(path)} now resolves to a different path than the one that was approved`,
  );
}

/** A file that does not exist yet has the real path of its folder. */
async function followLinks(path: string, given: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw new PathRefused(`${JSON.stringify(given)}: ${problemOf(code)}`);
  }
  if (await isLink(path)) {
    throw new PathRefused(`${JSON.stringify(given)} is a link to a file that does not exist`);
  }
  const folder = dirname(path);
  return folder === path ? path : join(await followLinks(folder, given), basename(path));
}

async function isLink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch {
    return false;
  }
}

function problemOf(code: string | undefined): string {
  switch (code) {
    case 'ELOOP':
      return 'its links form a cycle';
    case 'ENOTDIR':
      return 'a part of it is a file, not a folder';
    case 'ENAMETOOLONG':
      return 'it is too long';
    case 'EACCES':
      return 'permission denied';
    default:
      return `it cannot be resolved (${code ?? 'unknown error'})`;
  }
}

/** Opens a resolved path. Never blocks, not even on a pipe without a writer. */
export async function openResolved(path: string, flags: number = O_RDONLY): Promise<FileHandle> {
  const handle = await open(path, flags | O_NOFOLLOW | O_NONBLOCK);
  if (await isAt(handle, path).catch(() => false)) return handle;
  await handle.close();
  throw new PathRefused('The path was changed while it was opened');
}

/** Opens a folder, and creates it if it does not exist. */
export async function openFolder(path: string): Promise<FileHandle> {
  try {
    return await openResolved(path, O_RDONLY | O_DIRECTORY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const parent = await openFolder(dirname(path));
  try {
    await mkdir(childPath(parent, dirname(path), basename(path)), { mode: 0o777 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await parent.close();
  }
  return openResolved(path, O_RDONLY | O_DIRECTORY);
}

/** The path of a name in an open folder, which holds even if the folder is moved or replaced. */
export function childPath(folder: FileHandle, path: string, name: string): string {
  return join(process.platform === 'linux' ? `/proc/self/fd/${folder.fd}` : path, name);
}

async function isAt(handle: FileHandle, path: string): Promise<boolean> {
  if (process.platform === 'linux') {
    return (await readlink(`/proc/self/fd/${handle.fd}`)) === path;
  }
  const [opened, named, real] = [await handle.stat(), await stat(path), await realpath(path)];
  return real === path && opened.ino === named.ino && opened.dev === named.dev;
}
