/**
 * Places inside a workspace. A path is normalised, then links are followed, and what lies outside is
 * refused. What was found is opened without following anything, and then it is checked that it is
 * what was opened: a link that is swapped in between leads nowhere.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Why a path is refused, in a sentence for the model. */
export class PlaceRefused extends Error {
  override readonly name = 'PlaceRefused';
}

/** The real place that a path leads to, below `root`, which is real itself. */
export async function findPlace(root: string, path: string): Promise<string> {
  if (path.includes('\0')) throw new PlaceRefused('The path holds a NUL character');
  const place = await follow(resolve(root, path), path);
  if (isWithin(root, place)) return place;
  throw new PlaceRefused(`${JSON.stringify(path)} lies outside the workspace`);
}

export function isWithin(root: string, place: string): boolean {
  return place === root || place.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** What is not there yet lies in the real place of its folder. */
async function follow(path: string, said: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw new PlaceRefused(`${JSON.stringify(said)}: ${sentenceOn(code)}`);
  }
  if (await isLink(path)) {
    throw new PlaceRefused(`${JSON.stringify(said)} is a link that leads nowhere`);
  }
  const folder = dirname(path);
  return folder === path ? path : join(await follow(folder, said), basename(path));
}

async function isLink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch {
    return false;
  }
}

function sentenceOn(code: string | undefined): string {
  switch (code) {
    case 'ELOOP':
      return 'its links lead in a circle';
    case 'ENOTDIR':
      return 'a part of it is a file, not a folder';
    case 'ENAMETOOLONG':
      return 'it is too long';
    case 'EACCES':
      return 'it cannot be looked at';
    default:
      return `it cannot be followed (${code ?? 'unknown error'})`;
  }
}

/** Opens a place that `findPlace` gave. It never waits, not for the other end of a pipe either. */
export async function openPlace(place: string, flags: number = O_RDONLY): Promise<FileHandle> {
  const handle = await open(place, flags | O_NOFOLLOW | O_NONBLOCK);
  return checked(handle, place);
}

/** Opens a folder, and makes it if it is not there. */
export async function openFolder(place: string): Promise<FileHandle> {
  try {
    return await openPlace(place, O_RDONLY | O_DIRECTORY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const parent = await openFolder(dirname(place));
  try {
    await mkdir(within(parent, dirname(place), basename(place)), { mode: 0o777 }).catch(ifThere);
  } finally {
    await parent.close();
  }
  return openPlace(place, O_RDONLY | O_DIRECTORY);
}

/** A name in an open folder: whatever becomes of the folder's own path, this is in it. */
export function within(folder: FileHandle, place: string, name: string): string {
  return join(process.platform === 'linux' ? `/proc/self/fd/${folder.fd}` : place, name);
}

async function checked(handle: FileHandle, place: string): Promise<FileHandle> {
  if (await isAt(handle, place).catch(() => false)) return handle;
  await handle.close();
  throw new PlaceRefused('The path was changed while it was opened');
}

async function isAt(handle: FileHandle, place: string): Promise<boolean> {
  if (process.platform === 'linux') {
    return (await readlink(`/proc/self/fd/${handle.fd}`)) === place;
  }
  const [opened, named, real] = [await handle.stat(), await stat(place), await realpath(place)];
  return real === place && opened.ino === named.ino && opened.dev === named.dev;
}

function ifThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
