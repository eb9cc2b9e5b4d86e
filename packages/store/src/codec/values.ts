/**
 * How values are stored in columns. Free text is stored JSON-encoded, so that NUL and lone surrogates
 * survive in every database. A value that cannot be read back as it was written throws
 * `journal_corrupt`.
 */
import { crc32 } from 'node:zlib';
import { RelayError } from '@relay/protocol';
import type { Row, SqlValue } from '../drivers/driver.ts';

export function corrupt(subject: string, what: string): RelayError {
  return new RelayError('journal_corrupt', `${subject} is damaged: ${what}`);
}

/** Detects flipped bytes and misplaced rows; it does not resist an attacker. */
export function checksumOf(...parts: readonly SqlValue[]): number {
  return crc32(parts.join('\n'));
}

/** Whether the checksum in a row is that of these columns, in this order. */
export function isIntact(row: Row, columns: readonly string[], checksum = 'checksum'): boolean {
  return checksumOf(...columns.map((column) => row[column] ?? null)) === row[checksum];
}

export function checkIntact(
  subject: string,
  row: Row,
  columns: readonly string[],
  checksum?: string,
): void {
  if (!isIntact(row, columns, checksum)) throw corrupt(subject, 'it does not match its checksum');
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== 'string') throw corrupt('A stored row', `${column} is not text`);
  return value;
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : text(row, column);
}

export function number(row: Row, column: string): number {
  const value = row[column];
  if (typeof value !== 'number') throw corrupt('A stored row', `${column} is not a number`);
  return value;
}

export function numberOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : number(row, column);
}

export function json(row: Row, column: string): unknown {
  const stored = text(row, column);
  try {
    return JSON.parse(stored);
  } catch {
    throw corrupt('A stored row', `${column} is not JSON`);
  }
}

export function jsonOrNull(row: Row, column: string): unknown {
  return row[column] === null ? null : json(row, column);
}

export function freeText(row: Row, column: string): string {
  const value = json(row, column);
  if (typeof value !== 'string') throw corrupt('A stored row', `${column} is not text`);
  return value;
}

export function encode(value: unknown): string {
  return JSON.stringify(value) ?? 'null';
}

export function encodeOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}
