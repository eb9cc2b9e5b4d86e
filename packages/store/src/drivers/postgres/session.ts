/**
 * One connection. Statements are pipelined, and results arrive in order. A failed connection is never
 * used again: its user opens another one.
 */
import { defined } from '@relay/protocol';
import { Client, types } from 'pg';
import type { ClientConfig, QueryResult } from 'pg';
import type { Row, SqlValue, StatementResult } from '../driver.ts';

export interface SessionOptions {
  readonly url: string;
  readonly name?: string;
  /** How long a statement may take, on the server. */
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs?: number;
  /** How long the server waits for the next statement of a transaction. */
  readonly idleInTransactionMs?: number;
  readonly connectTimeoutMs: number;
}

/** If even the server’s own timeout is not reported, the connection counts as lost. */
const silenceMs = 5_000;

/** Whole numbers are numbers as long as they are exact. */
function exactNumber(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) || text.includes('.') ? value : BigInt(text);
}

export class PostgresSession {
  readonly #client: Client;
  /** Resolves when the connection has failed or ended. */
  readonly lost: Promise<void>;
  #usable = true;
  #waiting = 0;

  private constructor(client: Client) {
    this.#client = client;
    this.lost = new Promise((resolve) => {
      const lose = () => {
        this.#usable = false;
        resolve();
      };
      client.on('error', lose);
      client.on('end', lose);
    });
  }

  static async open(options: SessionOptions): Promise<PostgresSession> {
    const client = new Client(configOf(options));
    client.setTypeParser(types.builtins.INT8, exactNumber);
    client.setTypeParser(types.builtins.NUMERIC, Number);
    const session = new PostgresSession(client);
    await client.connect();
    return session;
  }

  get usable(): boolean {
    return this.#usable;
  }

  /** The number of outstanding results. */
  get waiting(): number {
    return this.#waiting;
  }

  onNotification(listener: (payload: string) => void): void {
    this.#client.on('notification', ({ payload }) => listener(payload ?? ''));
  }

  query(sql: string, params: readonly SqlValue[]): Promise<StatementResult> {
    this.#waiting += 1;
    const { text, name } = postgresText(sql);
    const query = { text, values: params as SqlValue[], ...(name === undefined ? {} : { name }) };
    return new Promise((resolve, reject) => {
      this.#client.query<Row, SqlValue[]>(query, (error: Error | null, result) => {
        this.#waiting -= 1;
        if (error === null) resolve({ rows: result.rows, changes: result.rowCount ?? 0 });
        else reject(error);
      });
    });
  }

  /** For BEGIN, COMMIT and the like, which need no preparation. */
  command(text: string): Promise<QueryResult> {
    return this.#client.query(text);
  }

  /** Closes after the outstanding results have arrived. */
  async end(): Promise<void> {
    this.#usable = false;
    await this.#client.end().catch(() => undefined);
  }

  /** Closes at once. */
  destroy(): void {
    this.#usable = false;
    this.#client.connection.stream.destroy();
  }
}

function configOf(options: SessionOptions): ClientConfig {
  const { statementTimeoutMs, lockTimeoutMs, idleInTransactionMs } = options;
  return {
    connectionString: options.url,
    application_name: options.name ?? 'relay',
    pipeline: true,
    keepAlive: true,
    connectionTimeoutMillis: options.connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + silenceMs,
    ...defined({
      lock_timeout: lockTimeoutMs,
      idle_in_transaction_session_timeout: idleInTransactionMs,
    }),
  };
}

interface PostgresText {
  readonly text: string;
  /** The name of the prepared statement; none for statements that run once. */
  readonly name?: string;
}

const translated = new Map<string, PostgresText>();

/** SQL with `$1`, `$2` … for `?`. Each text is translated once and prepared once per connection. */
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

/** Strings, quoted names and comments, which are copied, or a placeholder. */
const pieces = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\?/g;

function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll(pieces, (piece) => (piece === '?' ? `$${(count += 1)}` : piece));
}
