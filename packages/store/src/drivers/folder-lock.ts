/**
 * One server a data folder. The lock is an open exclusive transaction on a small database of its
 * own: the operating system gives it up when the process ends, in whatever way, so that it can
 * never be left behind. Nothing is ever written to it.
 */
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
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
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new RelayError('storage_failed', `The data folder ${dir} cannot be made`, { cause });
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
