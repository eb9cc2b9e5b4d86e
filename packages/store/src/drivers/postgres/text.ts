/**
 * SQL as PostgreSQL wants it: `?` becomes `$1`, `$2` …, but not inside of quotes and comments. Each
 * text is translated once and gets a name, under which a connection prepares it once.
 */
export interface PostgresText {
  readonly text: string;
  /** Left out where preparing makes no sense: such a text is run once. */
  readonly name?: string;
}

const translated = new Map<string, PostgresText>();

export function postgresText(sql: string): PostgresText {
  let known = translated.get(sql);
  if (known === undefined) {
    const text = numbered(sql);
    known = isDefinition.test(sql) ? { text } : { text, name: `relay_${translated.size}` };
    translated.set(sql, known);
  }
  return known;
}

const isDefinition = /^\s*(?:CREATE|ALTER|DROP|GRANT|REVOKE)\b/i;

/** What is copied as it is: strings, names in quotes, comments; or else a single mark. */
const pieces = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\?/g;

function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll(pieces, (piece) => (piece === '?' ? `$${(count += 1)}` : piece));
}
