/** The thread of long reads, on a read-only connection. It answers one request after the other. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { Row, SqlValue } from '../driver.ts';
import { faultOf, PreparedStatements, type SqliteFault } from './units.ts';
import type { WriterOptions } from './writer.ts';

export type ReaderRequest = readonly [sql: string, params: readonly SqlValue[]];
export type ReaderReply = { readonly rows: readonly Row[] } | { readonly fault: SqliteFault };

if (parentPort !== null) {
  const port = parentPort;
  const { path, busyTimeoutMs } = workerData as WriterOptions;
  const db = new DatabaseSync(path, { readOnly: true, timeout: busyTimeoutMs });
  // Sorts use no files.
  db.exec('PRAGMA temp_store = MEMORY');
  const statements = new PreparedStatements(db);
  const answer = ([sql, params]: ReaderRequest): ReaderReply => {
    try {
      return { rows: statements.all(sql, params) };
    } catch (error) {
      return { fault: faultOf(error) };
    }
  };
  port.on('message', (request: ReaderRequest) => port.postMessage(answer(request)));
}
