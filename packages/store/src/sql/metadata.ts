/** Small facts about the store itself. */
import type { Row, Statement } from '../drivers/driver.ts';
import { checksumOf, corrupt, encode, freeText, text } from '../codec/values.ts';

const insertSql = 'INSERT INTO metadata (name, value, checksum) VALUES (?, ?, ?)';

const keepSql = `${insertSql} ON CONFLICT (name) DO NOTHING`;

const replaceSql = `${insertSql} ON CONFLICT (name) DO UPDATE
  SET value = excluded.value, checksum = excluded.checksum`;

export function writeMetadata(
  name: string,
  value: string,
  { ifAbsent = false }: { ifAbsent?: boolean } = {},
): Statement {
  const fixed = [encode(name), encode(value)];
  const params = [...fixed, checksumOf(...fixed)];
  return { sql: ifAbsent ? keepSql : replaceSql, params, expect: 1 };
}

const selectSql = 'SELECT name, value, checksum FROM metadata WHERE name = ?';

export function selectMetadata(name: string): Statement {
  return { sql: selectSql, params: [encode(name)] };
}

export function decodeMetadata(row: Row): string {
  const name = text(row, 'name');
  if (checksumOf(name, text(row, 'value')) !== row['checksum']) {
    throw corrupt(`The metadata entry ${name}`, 'it does not match its checksum');
  }
  return freeText(row, 'value');
}
