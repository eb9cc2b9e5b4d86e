/**
 * Tables whose rows decide who may do what: a row counts only with a code (`mac`) that nobody can make
 * who can write to the database but does not hold the key. The code covers the name of the table and
 * every column of the record, unless the column is declared as unsigned. A change replaces the code and
 * applies only to the row that was verified before.
 */
import { crc32 } from 'node:zlib';
import type { DamagedRow } from '@relay/core';
import type { Row, SqlValue, Statement } from '../drivers/driver.ts';
import { type Codecs, columnOf, RecordCodec } from './records.ts';
import { corrupt, text } from './values.ts';

/** Makes and verifies codes. The store holds no keys of its own. */
export interface RowAuthenticator {
  /** The code of a text, under the current key. */
  sign(text: string): string;
  /** Whether the code is that of the text, under the current key or an earlier one that is known. */
  verify(text: string, mac: string): boolean;
  /** Whether the code was made with the current key. */
  isCurrent(mac: string): boolean;
}

/** Detects damage; it does not resist an attacker. For stores that have no key. */
export const checksumAuthenticator: RowAuthenticator = {
  sign: (content) => crc32(content).toString(16),
  verify: (content, mac) => crc32(content).toString(16) === mac,
  isCurrent: () => true,
};

/** The authenticator of a store, and the listeners that receive what it refuses. */
export class RowSigner {
  readonly #authenticator: RowAuthenticator;
  readonly #listeners = new Set<(row: DamagedRow) => void>();

  constructor(authenticator: RowAuthenticator) {
    this.#authenticator = authenticator;
  }

  sign(content: string): string {
    return this.#authenticator.sign(content);
  }

  verify(content: string, mac: unknown): boolean {
    return typeof mac === 'string' && this.#authenticator.verify(content, mac);
  }

  isCurrent(mac: string): boolean {
    return this.#authenticator.isCurrent(mac);
  }

  onDamage(listener: (row: DamagedRow) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  report(row: DamagedRow): void {
    for (const listener of this.#listeners) listener(row);
  }
}

export interface SignedTableOptions<Fields extends object> {
  readonly name: string;
  /** What a row is, for messages. */
  readonly subject: string;
  readonly codecs: Codecs<Fields>;
  /** The columns of the primary key. */
  readonly key: readonly string[];
  /** Fields that give no right: a change of them is not detected. */
  readonly unsigned?: readonly (keyof Fields & string)[];
}

export interface Assignments {
  readonly assignments: string;
  readonly values: readonly SqlValue[];
}

export class SignedTable<Fields extends object> {
  readonly name: string;
  /** All columns, those of the record in its order. */
  readonly columns: readonly string[];
  readonly key: readonly string[];
  readonly #codec: RecordCodec<Fields>;
  readonly #subject: string;
  readonly #signed: readonly string[];
  readonly #where: string;

  constructor({ name, subject, codecs, key, unsigned = [] }: SignedTableOptions<Fields>) {
    this.name = name;
    this.key = key;
    this.#subject = subject;
    this.#codec = new RecordCodec(codecs);
    const free = new Set(unsigned.map(columnOf));
    this.#signed = this.#codec.columns.filter((column) => !free.has(column));
    this.columns = [...this.#codec.columns, 'mac'];
    this.#where = [...key, 'mac'].map((column) => `${column} = ?`).join(' AND ');
  }

  /** The values of a new row, in the order of `columns`. */
  encode(signer: RowSigner, record: Fields): SqlValue[] {
    const values = this.#codec.encode(record);
    const row = Object.fromEntries(
      this.#codec.columns.map((column, index) => [column, values[index] ?? null]),
    );
    return [...values, signer.sign(this.#content(row))];
  }

  /** Throws `journal_corrupt` if the row is not as it was written. */
  decode(signer: RowSigner, row: Row): Fields {
    const record = this.find(signer, row);
    if (record !== undefined) return record;
    const { id } = this.identify(row);
    throw corrupt(`${this.#subject} ${id}`, 'it does not match its authentication code');
  }

  /** Undefined if the row is not as it was written: it gives no right. */
  find(signer: RowSigner, row: Row): Fields | undefined {
    if (this.isAuthentic(signer, row)) return this.#codec.decode(row);
    signer.report(this.identify(row));
    return undefined;
  }

  decodeUnverified(row: Row): Fields {
    return this.#codec.decode(row);
  }

  isAuthentic(signer: RowSigner, row: Row): boolean {
    return signer.verify(this.#content(row), row['mac']);
  }

  /** Changes nothing unless the row is still the same. `row` must be authentic. */
  update(signer: RowSigner, row: Row, changes: Partial<Fields> = {}): Statement {
    const { assignments, values } = this.changes(signer, row, changes);
    const before = [...this.key, 'mac'].map((column) => row[column] ?? null);
    return {
      sql: `UPDATE ${this.name} SET ${assignments} WHERE ${this.#where}`,
      params: [...values, ...before],
      expect: 1,
    };
  }

  /** What a statement assigns to change an authentic row, with its new code. */
  changes(signer: RowSigner, row: Row, changes: Partial<Fields>): Assignments {
    const changed = this.#codec.encodeSome(changes);
    const mac = signer.sign(this.#content({ ...row, ...Object.fromEntries(changed) }));
    const columns = [...changed.map(([column]) => column), 'mac'];
    return {
      assignments: columns.map((column) => `${column} = ?`).join(', '),
      values: [...changed.map(([, value]) => value), mac],
    };
  }

  /** Which row it is, for the operator. */
  identify(row: Row): DamagedRow {
    const of = (column: string) => (typeof row[column] === 'string' ? text(row, column) : '');
    const tenant = this.columns.includes('tenant_id') ? 'tenant_id' : 'id';
    const names = this.columns.includes('id')
      ? ['id']
      : this.key.filter((column) => column !== tenant);
    return { table: this.name, id: names.map(of).join(' '), tenantId: of(tenant) };
  }

  /** As JSON, so that different rows never have the same text. */
  #content(row: Row): string {
    return JSON.stringify([this.name, ...this.#signed.map((column) => row[column] ?? null)]);
  }
}
