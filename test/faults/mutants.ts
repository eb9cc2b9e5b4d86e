/**
 * Safeguards, and how each is taken out. Removing one must make a test fail: a row of
 * the chaos tests where its fault finds it quickly, or else the tests that were written for it.
 */
export interface Mutant {
  readonly safeguard: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** Test files, and the words that choose tests in them. */
  readonly noticedBy: readonly string[];
  readonly only?: string;
  /** Words of the row of the chaos tests, where it is that. */
  readonly row?: string;
}

const chaos = ['test/faults/chaos.test.ts'];
const sqliteStore = ['packages/store/test/sqlite-store.test.ts'];
const programs = ['packages/server/test/http/sessions/deliveries.test.ts'];
const resumption = ['test/loop/resume-by-decision.test.ts'];

export const mutants: readonly Mutant[] = [
  {
    safeguard: 'fence: an append carries the epoch of its lease',
    file: 'packages/store/src/sql/runs/append.ts',
    from: 'AND last_seq = ? AND epoch = ?\n',
    to: 'AND last_seq = ? AND (epoch = ? OR 1 = 1)\n',
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'resumption: a decision takes only a run without a holder',
    file: 'packages/store/src/sql/runs/append.ts',
    from: `'lease_owner IS NULL AND crashes = 0'`,
    to: `'crashes = 0'`,
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'resumption: a decision does not overtake what was accepted before it',
    file: 'packages/store/src/sql/runs/append.ts',
    from: '...(append.claim === undefined ? [] : [expectNoCommands(run)]),',
    to: '',
    noticedBy: resumption,
  },
  {
    safeguard: 'resumption: nothing is written before the decision',
    file: 'packages/core/src/journal.ts',
    from: 'this.#claim === undefined || batch.decision !== undefined;',
    to: 'true;',
    noticedBy: resumption,
  },
  {
    safeguard: 'resumption: no model is called before the lease is held',
    file: 'packages/core/src/run/loop.ts',
    from: 'if (!run.journal.isClaimed) await run.journal.settled();',
    to: '',
    noticedBy: resumption,
  },
  {
    safeguard: 'lease: only what is free can be claimed',
    file: 'packages/store/src/sql/runs/leases.ts',
    from: 'AND (lease_owner IS NULL OR lease_until <= ${time}) AND',
    to: 'AND (lease_owner IS NULL OR lease_until <= ${time} OR 1 = 1) AND',
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'crash loop: a claim counts the process that died',
    file: 'packages/store/src/sql/runs/leases.ts',
    from: 'CASE WHEN ${countsHolder} THEN 1 ELSE 0 END,',
    to: 'CASE WHEN ${countsHolder} THEN 0 ELSE 0 END,',
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'fsync: a commit is on the disk before it is acknowledged',
    file: 'packages/store/src/drivers/sqlite/connection.ts',
    from: 'PRAGMA synchronous = FULL',
    to: 'PRAGMA synchronous = OFF',
    noticedBy: ['packages/store/test/drivers/sqlite/faults.test.ts'],
  },
  {
    safeguard: 'compare-and-set: the first decision counts',
    file: 'packages/store/src/sql/runs/approvals.ts',
    from: "AND ${ofRun(runId)} AND status = 'pending' AND expires_at > ?",
    to: 'AND ${ofRun(runId)} AND expires_at > ?',
    noticedBy: chaos,
    row: 'racing',
  },
  {
    safeguard: 'sessions: a change is computed from the state that it replaces',
    file: 'packages/store/src/sql/sessions/sessions.ts',
    from: `isRelative ? '' : 'AND version = ?'`,
    to: `isRelative ? '' : 'AND (version = ? OR 1 = 1)'`,
    noticedBy: sqliteStore,
    only: 'sessions',
  },
  {
    safeguard: 'sessions: every event has a number of its own',
    file: 'packages/store/src/sql/sessions/sessions.ts',
    from: `'last_seq = last_seq + ?',`,
    to: `'last_seq = last_seq + 0 * ? + 1',`,
    noticedBy: sqliteStore,
    only: 'sessions',
  },
  {
    safeguard: 'deliveries: a receipt moves a delivery once',
    file: 'packages/store/src/sql/sessions/deliveries.ts',
    from: 'AND status IN (${placeholders(mostStatuses)}) AND',
    to: 'AND (status IN (${placeholders(mostStatuses)}) OR 1 = 1) AND',
    noticedBy: sqliteStore,
    only: 'sessions',
  },
  {
    safeguard: 'deliveries: what is handed over is what was read',
    file: 'packages/store/src/sql/sessions/deliveries.ts',
    from: 'AND revision = COALESCE(?, revision)',
    to: 'AND revision = COALESCE(revision, ?)',
    noticedBy: sqliteStore,
    only: 'sessions',
  },
  {
    safeguard: 'deliveries: an inbox is limited',
    file: 'packages/store/src/sql/sessions/deliveries.ts',
    from: 'WHERE inbox.messages > ? OR inbox.bytes > ?',
    to: 'WHERE inbox.messages > ? + 1000000 OR inbox.bytes > ?',
    noticedBy: sqliteStore,
    only: 'sessions',
  },
  {
    safeguard: 'deliveries: an attempt is made once, on the newest stream',
    file: 'packages/core/src/commands/sessions/stream.ts',
    from: 'ifStream: streamId, events: [],',
    to: 'events: [],',
    noticedBy: programs,
  },
  {
    safeguard: 'deliveries: of two attempts at once one is recorded',
    file: 'packages/store/src/sql/sessions/deliveries.ts',
    from: 'AND attempts = COALESCE(?, attempts)',
    to: 'AND attempts = COALESCE(attempts, ?)',
    noticedBy: sqliteStore,
    only: 'sessions',
  },
  {
    safeguard: 'deliveries: a receipt is given once',
    file: 'packages/core/src/sessions/delivery-machine.ts',
    from: `  if (next === 'same') return { kind: 'same' };
  if (next === 'refused')`,
    to: `  if (next === 'refused')`,
    noticedBy: chaos,
    row: 'of the server and of programs',
  },
  {
    safeguard: 'deliveries: an attempt is stored before it is made',
    file: 'packages/server/src/streaming/deliveries.ts',
    from: `      if (!(await this.#recordAttempts(session, entries))) return false;
      await this.#send(entries.map(deliveryFrame));`,
    to: `      await this.#send(entries.map(deliveryFrame));
      if (!(await this.#recordAttempts(session, entries))) return false;`,
    noticedBy: chaos,
    row: 'of the server and of programs',
  },
  {
    safeguard: 'deliveries: what is sent again is marked',
    file: 'packages/core/src/commands/sessions/stream.ts',
    from: `attempts > 0 || status === 'delivered'`,
    to: 'attempts < 0',
    noticedBy: chaos,
    row: 'of the server and of programs',
  },
  {
    safeguard: 'deliveries: a stream sends in the order of the inbox',
    file: 'packages/store/src/sql/sessions/deliveries.ts',
    from: 'ORDER BY d.position, d.id`;',
    to: 'ORDER BY d.position DESC, d.id`;',
    noticedBy: chaos,
    row: 'of the server and of programs',
  },
  {
    safeguard: 'deliveries: a new stream sends again what has not ended',
    file: 'packages/store/src/sql/sessions/deliveries.ts',
    from: '(stream_id IS NULL OR stream_id <> ?)',
    to: '(stream_id IS NULL OR stream_id = ? AND 1 = 0)',
    noticedBy: programs,
  },
  {
    safeguard: 'deliveries: nothing starts a turn beside what is sent again',
    file: 'packages/store/src/sql/sessions/deliveries.ts',
    from: 'AND (h.stream_id <> ? OR (h.stream_id IS NOT NULL AND h.attempts > 1)',
    to: 'AND ((h.stream_id <> ? AND h.attempts < 0) OR (h.stream_id IS NOT NULL AND h.attempts < 0)',
    noticedBy: sqliteStore,
    only: 'sessions',
  },
  {
    safeguard: 'dedupe: an idempotency key stands for one run',
    file: 'packages/store/src/sql/runs/creation.ts',
    from: 'WHERE idempotency_keys.expires_at <= ?',
    to: 'WHERE idempotency_keys.expires_at <= ? OR 1 = 1',
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'tenant predicate: a run is read by its own tenant',
    file: 'packages/store/src/sql/runs/runs.ts',
    from: 'WHERE r.tenant_id = ? AND r.id = ?',
    to: 'WHERE (r.tenant_id = ? OR 1 = 1) AND r.id = ?',
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'row-level security: the database shows a tenant its own rows alone',
    file: 'packages/store/src/sql/schema/row-security.ts',
    from: 'return `${column} = ${currentTenant} OR',
    to: 'return `true OR ${column} = ${currentTenant} OR',
    noticedBy: ['packages/store/test/sql/schema/row-security.postgres.test.ts'],
    only: 'where Relay is a superuser',
  },
  {
    safeguard: 'intent before call: what starts is on record',
    file: 'packages/core/src/run/dispatch.ts',
    from: `  await run.journal.write(events, { onGrantExhausted });
  for (const { tool, intent } of planned) {
    // The grant that allowed a call may have been exhausted before the intent was stored.
    if (callOf(run.state, intent)?.phase === 'started') execute(run, agent, tool, intent);
  }`,
    to: `  for (const { tool, intent } of planned) execute(run, agent, tool, intent);
  await run.journal.write(events, { onGrantExhausted });`,
    noticedBy: ['test/faults/crash-matrix.test.ts'],
    only: 'tool that must not run twice',
  },
  {
    safeguard: 'unknown outcome: only an idempotent tool runs again',
    file: 'packages/core/src/run/recover.ts',
    from: 'if (tool?.idempotent === true && !late) {',
    to: 'if (tool !== undefined && !late) {',
    noticedBy: chaos,
    row: 'of the server, 20 runs',
  },
  {
    safeguard: 'publish after commit: nothing is shown before it is stored',
    file: 'packages/core/src/journal.ts',
    from: `        let outcome = mayStore ?`,
    to: `        this.#options.publisher.publish(this.#options.run.id, batch.stored, this.#options.run.tenantId);
        let outcome = mayStore ?`,
    noticedBy: ['packages/core/test/journal.test.ts'],
  },
  {
    safeguard: 'allow-once: one call uses it up',
    file: 'packages/core/src/run/call-rules.ts',
    from: `if (list === 'allowOnce' && this.#program === undefined) this.#usedOnce.push(index);`,
    to: '',
    noticedBy: chaos,
    row: 'of the server, 20 runs',
  },
  {
    safeguard: 'compare-and-set: the first result of a client counts',
    file: 'packages/store/src/sql/runs/client-calls.ts',
    from: `AND tool_call_id = ? AND status = 'pending' AND result_by > ?`,
    to: `AND tool_call_id = ? AND result_by > ?`,
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'grant count: a grant with none left allows nothing',
    file: 'packages/store/src/sql/tenants/grants.ts',
    from: 'return holds && usesLeft >= 0 ?',
    to: 'return holds ?',
    noticedBy: sqliteStore,
  },
  {
    safeguard: 'row authentication: a row that was changed past Relay gives no right',
    file: 'packages/store/src/codec/signed-table.ts',
    from: 'if (this.isAuthentic(signer, row)) return',
    to: 'if (row !== undefined) return',
    noticedBy: ['packages/store/test/sql/tampering.test.ts'],
  },
  {
    safeguard: 'checksum: a changed byte is noticed',
    file: 'packages/store/src/sql/runs/events.ts',
    from: `stored) !== row['checksum']) {`,
    to: `stored) === -1) {`,
    noticedBy: chaos,
    row: 'bytes',
  },
  {
    safeguard: 'nothing starts on a journal that is damaged',
    file: 'packages/core/src/run/dispatch.ts',
    from: 'if (starts.length > 0) await run.checkJournal();',
    to: '',
    noticedBy: chaos,
    row: 'bytes',
  },
];
