/**
 * How values are stored in columns, and how damage is detected. Free text is stored JSON-encoded, so that NUL and
 * lone surrogates survive in every database; whatever cannot be read back as it was written throws
 * `journal_corrupt`.
 */
import { crc32 } from 'node:zlib';
import { RelayError } from '@relay/protocol';
import type { Row } from '../drivers/driver.ts';

export function corrupt(subject: string, what: string): RelayError {
  return new RelayError('journal_corrupt', `${subject} is damaged: ${what}`);
}

/** A checksum that detects flipped bytes and misplaced rows; it does not resist an attacker. */
export function checksumOf(...parts: readonly (string | number)[]): number {
  return crc32(parts.join('\n'));
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== 'string') throw corrupt('A stored row', `${column} is not text`);
  return value;
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : text(row, column);
}

export function integer(row: Row, column: string): number {
  const value = row[column];
  if (typeof value !== 'number') throw corrupt('A stored row', `${column} is not a number`);
  return value;
}

export function integerOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : integer(row, column);
}

/** A number that need not be whole. */
export function realOrNull(row: Row, column: string): number | null {
  return integerOrNull(row, column);
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

/** Text that anyone may have written. */
export function freeText(row: Row, column: string): string {
  const value = json(row, column);
  if (typeof value !== 'string') throw corrupt('A stored row', `${column} is not text`);
  return value;
}

export function freeTextOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : freeText(row, column);
}

export function encode(value: unknown): string {
  return JSON.stringify(value) ?? 'null';
}

export function encodeOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}
