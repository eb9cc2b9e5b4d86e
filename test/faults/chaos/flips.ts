/**
 * Bytes that change on the disk. Runs wait for a person; the server dies; in what is stored of each
 * run one bit changes; the server comes back and everything is approved. Each run must fail clearly,
 * and none of its tools may run.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { DatabaseSync } from 'node:sqlite';
import type { Chance } from './faults.ts';
import { readLines, type ToolRan } from './record.ts';
import { modelName, type Environment } from './environment.ts';

export interface Waiting {
  readonly runId: string;
  readonly approvalId: string;
  readonly tag: string;
}

/** Starts a run that asks in its second turn, which has a snapshot, whether it may pay. */
export async function startWaiting(environment: Environment, tag: string): Promise<Waiting> {
  const tools = ['look', 'pay'].map((name) => ({ name, kind: 'builtin' }));
  const body = { model: modelName, input: `late ${tag}`, tools };
  const response = await environment.request('/v1/runs', {
    method: 'POST',
    body: JSON.stringify(body),
  });
  const runId = response.headers.get('x-run-id') ?? '';
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  void response.body?.cancel();
  for (;;) {
    const answer = await environment.request(`/v1/approvals?runId=${runId}`);
    const { approvals } = (await answer.json()) as { approvals: { id: string; runId: string }[] };
    const approval = approvals.find((one) => one.runId === runId);
    const row = await environment.query(
      `SELECT status, lease_owner FROM runs WHERE id = '${runId}'`,
    );
    const parked = row[0]?.['status'] === 'waiting' && row[0]['lease_owner'] === null;
    if (approval !== undefined && parked) return { runId, approvalId: approval.id, tag };
    await pause(50);
  }
}

/** `row` tells the rows of a run apart. */
const places = [
  { table: 'events', run: 'run_id', row: 'first_seq', columns: ['json', 'deflated'] },
  { table: 'snapshots', run: 'run_id', row: 'seq', columns: ['body'] },
  { table: 'runs', run: 'id', row: 'last_seq', columns: ['serialized_state'] },
] as const;

/** Changes one character or byte of one row that belongs to the run, and says where. */
function flip(db: DatabaseSync, runId: string, chance: Chance): string {
  const { table, run, row, columns } = places[Math.floor(chance() * places.length)] ?? places[0];
  const found = columns.flatMap((column) => {
    const sql = `SELECT ${row} AS id, ${column} AS text FROM ${table}
      WHERE ${run} = ? AND ${column} IS NOT NULL`;
    const rows = db.prepare(sql).all(runId) as { id: number; text: string | Uint8Array }[];
    return rows.map((each) => ({ ...each, column }));
  });
  const one = found[Math.floor(chance() * found.length)];
  if (one === undefined) throw new Error(`${table} has no row of ${runId}`);
  const { id, text, column } = one;
  const at = Math.floor(chance() * text.length);
  const bit = 1 << Math.floor(chance() * 5);
  const changed =
    typeof text === 'string'
      ? text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ bit) + text.slice(at + 1)
      : text.with(at, (text[at] ?? 0) ^ bit);
  db.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${run} = ? AND ${row} = ?`).run(
    changed,
    runId,
    id,
  );
  return `${table}.${column}, row ${id}, character ${at}`;
}

export async function flipBytes(
  environment: Environment,
  { times, chance, name }: { times: number; chance: Chance; name: string },
): Promise<{ violations: string[]; flips: number }> {
  const put = { method: 'PUT', body: JSON.stringify(environment.credential) };
  await environment.request('/v1/credentials/oracle', put);
  const waiting: Waiting[] = [];
  while (waiting.length < times) {
    const some = Array.from({ length: Math.min(10, times - waiting.length) }, (_, n) =>
      startWaiting(environment, `${name}-${waiting.length + n}`),
    );
    waiting.push(...(await Promise.all(some)));
  }
  const [node] = environment.nodes;
  await node?.kill();
  const db = new DatabaseSync(environment.database);
  const where = new Map(waiting.map(({ runId }) => [runId, flip(db, runId, chance)]));
  db.close();
  await node?.start();
  const violations: string[] = [];
  for (const { runId, approvalId, tag } of waiting) {
    const body = JSON.stringify({ approved: true });
    await environment.request(`/v1/approvals/${approvalId}`, { method: 'POST', body });
    const end = await endOf(environment, runId);
    if (end.status !== 'failed' || !end.error.includes('journal_corrupt')) {
      violations.push(
        `corruption is reported: ${runId} is ${end.status} (${end.error}), ${where.get(runId)}`,
      );
    }
    const ran = readLines<ToolRan>(environment.callsFile).some(
      (call) => call.toolCallId === `call_${tag}_2`,
    );
    if (ran) violations.push(`no tool runs on damage: ${runId}, ${where.get(runId)}`);
  }
  return { violations, flips: waiting.length };
}

/** By the row: what is damaged may not be readable through the API. */
async function endOf(
  environment: Environment,
  runId: string,
): Promise<{ status: string; error: string }> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const [row] = await environment.query(`SELECT status, error FROM runs WHERE id = '${runId}'`);
    const status = String(row?.['status']);
    if (['completed', 'failed', 'canceled'].includes(status) || Date.now() > deadline) {
      return { status, error: JSON.stringify(row?.['error']) };
    }
    await pause(20);
  }
}
