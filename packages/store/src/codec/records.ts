/** Records whose fields are stored in columns of their own, `createdAt` in `created_at`. */
import type { Row, SqlValue } from '../drivers/driver.ts';
import { encode, freeText, json, number, text } from './values.ts';

interface Codec<Value> {
  readonly encode: (value: Value) => SqlValue;
  readonly decode: (row: Row, column: string) => Value;
}

export const column = {
  /** For values that Relay generates; others are free text. */
  text: <Value extends string>(): Codec<Value> => ({
    encode: (value) => value,
    decode: (row, name) => text(row, name) as Value,
  }),
  freeText: { encode, decode: freeText } satisfies Codec<string>,
  boolean: {
    encode: (value: boolean) => (value ? 1 : 0),
    decode: (row, name) => number(row, name) === 1,
  } satisfies Codec<boolean>,
  number: { encode: (value: number) => value, decode: number } satisfies Codec<number>,
  json: <Value>(): Codec<Value> => ({
    encode,
    decode: (row, name) => json(row, name) as Value,
  }),
  nullable: <Value>({ encode, decode }: Codec<Value>): Codec<Value | null> => ({
    encode: (value) => (value === null ? null : encode(value)),
    decode: (row, name) => (row[name] === null ? null : decode(row, name)),
  }),
  /** An absent field is stored as NULL. */
  optional: <Value>({ encode, decode }: Codec<Value>): Codec<Value | undefined> => ({
    encode: (value) => (value === undefined ? null : encode(value)),
    decode: (row, name) => (row[name] === null ? undefined : decode(row, name)),
  }),
};

export type Codecs<Fields> = {
  readonly [Name in keyof Fields]-?: Codec<
    object extends Pick<Fields, Name> ? Fields[Name] | undefined : Fields[Name]
  >;
};

/** The column of a field. */
export function columnOf(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export class RecordCodec<Fields extends object> {
  readonly columns: readonly string[];
  readonly #codecs: readonly [name: keyof Fields & string, codec: Codec<unknown>][];

  /** The order of the fields is that of the columns, which a checksum or a code may depend on. */
  constructor(codecs: Codecs<Fields>) {
    this.#codecs = Object.entries(codecs) as [keyof Fields & string, Codec<unknown>][];
    this.columns = this.#codecs.map(([name]) => columnOf(name));
  }

  encode(record: Fields): SqlValue[] {
    return this.#codecs.map(([name, codec]) => codec.encode(record[name]));
  }

  /** The columns of these fields alone. */
  encodeSome(fields: Partial<Fields>): [column: string, value: SqlValue][] {
    return this.#codecs
      .filter(([name]) => name in fields)
      .map(([name, codec]) => [columnOf(name), codec.encode(fields[name])]);
  }

  decode(row: Row): Fields {
    const fields: Partial<Record<keyof Fields, unknown>> = {};
    for (const [index, [name, codec]] of this.#codecs.entries()) {
      const value = codec.decode(row, this.columns[index] ?? '');
      if (value !== undefined) fields[name] = value;
    }
    return fields as Fields;
  }
}
