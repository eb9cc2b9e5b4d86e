import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { StatementRefused } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { SqliteFault } from './units.ts';

const IO_ERROR = 10;
const CORRUPT = 11;
const FULL = 13;
const NOT_A_DATABASE = 26;
/** TOOBIG, CONSTRAINT, MISMATCH, RANGE: the values are refused whenever they are sent. */
const refusals = new Set([18, 19, 20, 25]);

export function toRelayError(fault: SqliteFault, path: string): RelayError {
  const primary = fault.code & 0xff;
  const text = `SQLite: ${fault.message} (${fault.code})`;
  const cause = refusals.has(primary) ? new StatementRefused(text) : new Error(text);
  if (primary === FULL || (primary === IO_ERROR && isFull(path))) {
    return new RelayError('storage_full', 'The disk that holds the journal is full', { cause });
  }
  if (primary === CORRUPT || primary === NOT_A_DATABASE) {
    return new RelayError('journal_corrupt', 'The database file is damaged', { cause });
  }
  return new RelayError('storage_failed', 'The database operation failed', { cause });
}

/** SQLite reports some of the ways in which a full disk shows itself as plain I/O errors. */
function isFull(path: string): boolean {
  try {
    const disk = statfsSync(dirname(path));
    return disk.bavail * disk.bsize < 64 * 1024;
  } catch {
    return false;
  }
}
