/**
 * An agent keeps its conversations in its home: that of a fork begins as a copy.
 *
 * The agent of the parent is running, and may change its home meanwhile. So every file is read by a handle that
 * follows no link: otherwise a link that replaces a file or a folder could make Relay read what the agent cannot.
 */
import { constants, createWriteStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readlink, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** `from`: what a session was forked with. `uncopied`: paths in the home that are left out. */
export async function copyHome(from: unknown, home: string, uncopied?: RegExp): Promise<void> {
  const { home: source } = (from ?? {}) as { readonly home?: unknown };
  if (typeof source !== 'string' || source === home) return;
  try {
    const folder = await open(source, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    await using(folder, () =>
      copyFolder(folder, source, home, (path) => uncopied?.test(relative(source, path)) === true),
    );
  } catch (error) {
    const why =
      'The conversation of the other session cannot be copied; it is on the node of that session';
    throw new Error(`${why}: ${(error as Error).message}`, { cause: error });
  }
}

async function using(handle: FileHandle, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } finally {
    await handle.close();
  }
}

/** A name in a folder that is open, whatever the path of the folder leads to by now. Only Linux has this. */
function childPath(folder: FileHandle, path: string, name: string): string {
  return process.platform === 'linux' ? `/proc/self/fd/${folder.fd}/${name}` : join(path, name);
}

async function copyFolder(
  folder: FileHandle,
  path: string,
  target: string,
  isLeftOut: (path: string) => boolean,
): Promise<void> {
  await mkdir(target, { recursive: true, mode: 0o700 });
  const entries = await readdir(childPath(folder, path, '.'), { withFileTypes: true });
  for (const entry of entries) {
    const source = childPath(folder, path, entry.name);
    const copy = join(target, entry.name);
    if (isLeftOut(join(path, entry.name))) continue;
    try {
      if (entry.isSymbolicLink()) await symlink(await readlink(source), copy);
      if (!entry.isDirectory() && !entry.isFile()) continue;
      const found = await open(source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      await using(found, () => copyFound(found, join(path, entry.name), copy, isLeftOut));
    } catch (error) {
      // It was removed or replaced meanwhile.
      if (!isGone(error)) throw error;
    }
  }
}

async function copyFound(
  found: FileHandle,
  path: string,
  copy: string,
  isLeftOut: (path: string) => boolean,
): Promise<void> {
  const status = await found.stat();
  if (status.isDirectory()) return copyFolder(found, path, copy, isLeftOut);
  if (!status.isFile()) return;
  const mode = status.mode & 0o777;
  await pipeline(found.createReadStream({ autoClose: false }), createWriteStream(copy, { mode }));
}

function isGone(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ELOOP';
}
