/**
 * One server a data folder. The lock is an open exclusive transaction on a small database of its
 * own: the operating system gives it up when the process ends, in whatever way, so that it can
 * never be stale. Nothing is ever written to it.
 */
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { RelayError } from '@relay/protocol';

export interface FolderLock {
  release(): void;
}

export function lockFolder(dir: string): FolderLock {
  makeFolder(dir);
  const path = join(dir, 'server.lock');
  try {
    createPrivately(path);
    const db = new DatabaseSync(path, { timeout: 0 });
    try {
      db.exec('BEGIN EXCLUSIVE');
    } catch (error) {
      db.close();
      throw error;
    }
    return {
      release() {
        if (db.isOpen) db.close();
      },
    };
  } catch (cause) {
    throw new RelayError('storage_failed', sentenceFor(cause, dir), { cause });
  }
}

/** Only its owner may look into a data folder. */
export function makeFolder(dir: string): void {
  try {
    // One by one: made recursively, a folder where none can be made is tried for ever.
    for (const missing of missingFolders(dir)) makeIfMissing(missing);
  } catch (cause) {
    throw new RelayError('storage_failed', `The data folder ${dir} cannot be made`, { cause });
  }
}

function missingFolders(dir: string): string[] {
  const missing: string[] = [];
  for (let at = dir; !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.unshift(at);
  return missing;
}

function makeIfMissing(dir: string): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Makes the file for its owner alone, if it is not there. It must not be opened if it is: closing
 * any handle of a file gives up the locks that this process has on it.
 */
export function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function sentenceFor(error: unknown, dir: string): string {
  const folder = dir.endsWith('/') ? dir : `${dir}/`;
  const isBusy = (error as { errcode?: unknown }).errcode === 5;
  return isBusy
    ? `Another Relay server is using ${folder}`
    : `The data folder ${folder} cannot be locked`;
}
