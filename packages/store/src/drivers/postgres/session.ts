/**
 * One connection. Statements are sent without waiting for the answers of those before them; answers
 * come in order. A connection that failed is never used again: its user opens another one.
 */
import { Client, types } from 'pg';
import type { ClientConfig, QueryResult } from 'pg';
import type { Row, SqlValue, StatementResult } from '../driver.ts';
import { postgresText } from './text.ts';

export interface SessionOptions {
  readonly url: string;
  readonly name?: string;
  /** How long a statement may take, on the server. */
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs?: number;
  /** How long the server waits for the next word inside of a transaction. */
  readonly idleInTransactionMs?: number;
  readonly connectTimeoutMs: number;
}

/** A server that does not even say that it timed out is gone. */
const silenceMs = 5_000;

/** Whole numbers are numbers as long as they are exact. */
function exactNumber(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) || text.includes('.') ? value : BigInt(text);
}

export class PostgresSession {
  readonly #client: Client;
  /** Resolves when it is of no more use. */
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

  /** How many answers are still to come. */
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

  /** BEGIN, COMMIT and the like, which nothing is gained by preparing. */
  command(text: string): Promise<QueryResult> {
    return this.#client.query(text);
  }

  /** Lets what was sent be answered, and leaves. */
  async end(): Promise<void> {
    this.#usable = false;
    await this.#client.end().catch(() => undefined);
  }

  /** Leaves without waiting for anything. */
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
    ...(lockTimeoutMs === undefined ? {} : { lock_timeout: lockTimeoutMs }),
    ...(idleInTransactionMs === undefined
      ? {}
      : { idle_in_transaction_session_timeout: idleInTransactionMs }),
  };
}
