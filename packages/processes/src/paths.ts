import { realpath } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';

export function isWithin(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** The real path behind a path, as far as it exists; it may lie anywhere. */
export async function realPathOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const folder = dirname(path);
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return isMissing && folder !== path ? join(await realPathOf(folder), basename(path)) : path;
  }
}
