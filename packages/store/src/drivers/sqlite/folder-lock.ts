/**
 * One server per data folder. The lock is an open exclusive transaction on a small database of its own.
 * The operating system releases it when the process ends, so it is never stale.
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
    createOwnerOnlyFile(path);
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
    throw new RelayError('storage_failed', messageFor(cause, dir), { cause });
  }
}

/** Only its owner may read a data folder. */
export function makeFolder(dir: string): void {
  try {
    // One by one: `recursive` never returns where no folder can be created.
    for (const missing of missingFolders(dir)) createIfMissing(missing);
  } catch (cause) {
    throw new RelayError('storage_failed', `The data folder ${dir} cannot be created`, { cause });
  }
}

function missingFolders(dir: string): string[] {
  const missing: string[] = [];
  for (let at = dir; !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.unshift(at);
  return missing;
}

function createIfMissing(dir: string): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Creates the file for its owner alone. An existing file must not be opened: closing any handle of it
 * releases the locks that this process holds on it.
 */
export function createOwnerOnlyFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Of an error of `lockFolder`. */
export function isFolderInUse(error: unknown): boolean {
  return error instanceof RelayError && isBusy(error.cause);
}

function isBusy(error: unknown): boolean {
  return (error as { errcode?: unknown } | undefined)?.errcode === 5;
}

function messageFor(error: unknown, dir: string): string {
  const folder = dir.endsWith('/') ? dir : `${dir}/`;
  return isBusy(error)
    ? `Another Relay server is using ${folder}`
    : `The data folder ${folder} cannot be locked`;
}
