/** One round: runs are started and disturbed, all come to their end, and everything is looked at. */
import { existsSync, readFileSync } from 'node:fs';
import type { StoredEvent } from '@relay/protocol';
import { strangeWrites } from './audit.ts';
import { successOf, violationsOf } from './invariants.ts';
import { Process } from './processes.ts';
import {
  acks,
  type Evidence,
  type Noted,
  readLines,
  type RunRow,
  type Scenario,
  scenarioNames,
  type ToolRan,
} from './record.ts';
import { modelName, type Environment } from './environment.ts';

export interface Round {
  readonly name: string;
  readonly atOnce?: number;
  readonly scenarios?: readonly Scenario[];
  /** What happens meanwhile; `recovered` looks at what can be seen in the middle of it. */
  disturb(during: During): Promise<void>;
}

export interface During {
  readonly environment: Environment;
  /** Tells the client where the servers are now. */
  moved(): void;
  recovered(): Promise<void>;
  noted(): Noted[];
}

export interface Result {
  readonly runs: number;
  readonly succeeded: number;
  readonly violations: readonly string[];
  readonly noted: readonly Noted[];
}

const deliveryTimeoutMs = 90_000;

export async function runRound(environment: Environment, round: Round): Promise<Result> {
  const file = environment.file(`client-${round.name}.jsonl`);
  const client = new Process('client', {
    CLIENT_FILE: file,
    ROUND: round.name,
    MODEL: modelName,
    TEST_TOOL_SERVER: environment.toolServer,
  });
  const earlier: (readonly RunRow[])[] = [];
  const met: string[] = [];
  const moved = () =>
    client.send({ do: 'servers', urls: environment.urls, key: environment.apiKey });
  try {
    moved();
    const stored = client.waitFor<{ said?: string }>(({ said }) => said === 'credential');
    client.send({ do: 'credential', provider: 'oracle', body: environment.credential });
    await stored;
    const { atOnce = 20, scenarios = scenarioNames } = round;
    client.send({ do: 'go', atOnce, scenarios });
    await round.disturb({
      environment,
      moved,
      noted: () => readLines<Noted>(file),
      async recovered() {
        const rows = await rowsOf(environment);
        earlier.push(rows);
        met.push(...(await lookInTheMiddle(environment, rows, readLines<Noted>(file))));
      },
    });
    const drained = client.waitFor<{ said?: string }>(({ said }) => said === 'drained');
    client.send({ do: 'drain' });
    await within(drained, () => `Runs of ${round.name} do not end: ${openOf(file)}`);
    const evidence = await gather(environment, { file, earlier });
    const violations = [...met, ...violationsOf(evidence)];
    return { ...successOf(evidence), violations, noted: evidence.noted };
  } finally {
    client.end();
  }
}

async function within<Value>(promise: Promise<Value>, what: () => string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(what())), deliveryTimeoutMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function openOf(file: string): string {
  const noted = readLines<Noted>(file);
  const ended = new Set(
    noted.flatMap((line) =>
      line.kind === 'frame' && line.data['type'] === 'done' ? [line.runId] : [],
    ),
  );
  const open = acks(noted, 'run').filter(({ runId }) => !ended.has(runId));
  return JSON.stringify(open.map(({ runId, tag, scenario }) => ({ runId, tag, scenario })));
}

/** Without asking anything that may be slow: what is stored must already be sound. */
async function lookInTheMiddle(
  environment: Environment,
  rows: readonly RunRow[],
  noted: readonly Noted[],
): Promise<string[]> {
  const stored = new Set(rows.map(({ id }) => id));
  // Runs acknowledged after the rows were read may be missing in them.
  const lost = acks(noted, 'run').filter(
    ({ runId, at }) => !stored.has(runId) && at < Date.now() - 1_000,
  );
  return [
    ...lost.map(({ runId }) => `everyAcknowledgedRunExists: ${runId} is gone after a recovery`),
    ...(await forgotten(environment)).map(
      (id) => `nothingWaitsForNothing: ${id}, after a recovery`,
    ),
    ...(await integrity(environment))
      .filter((word) => word !== 'ok')
      .map((word) => `sqliteIsSound: ${word}`),
  ];
}

async function rowsOf(environment: Environment): Promise<RunRow[]> {
  const rows = await environment.query('SELECT id, status, epoch, last_seq FROM runs');
  return rows.map((row) => ({
    id: String(row['id']),
    status: String(row['status']),
    epoch: Number(row['epoch']),
    last_seq: Number(row['last_seq']),
  }));
}

async function forgotten(environment: Environment): Promise<string[]> {
  const rows = await environment.query(`SELECT r.id FROM runs r
    WHERE r.status = 'waiting' AND r.wake_at IS NULL AND r.lease_owner IS NULL
      AND NOT EXISTS (SELECT 1 FROM approvals p WHERE p.run_id = r.id AND p.status = 'pending')
      AND NOT EXISTS (SELECT 1 FROM client_calls c WHERE c.run_id = r.id AND c.status = 'pending')
      AND NOT EXISTS (SELECT 1 FROM run_inbox m WHERE m.run_id = r.id)`);
  return rows.map((row) => String(row['id']));
}

async function integrity(environment: Environment): Promise<string[]> {
  if (environment.isShared) return [];
  const rows = await environment.query('PRAGMA integrity_check');
  return rows.map((row) => String(row['integrity_check']));
}

async function gather(
  environment: Environment,
  { file, earlier }: { file: string; earlier: readonly (readonly RunRow[])[] },
): Promise<Evidence> {
  const noted = readLines<Noted>(file);
  const mine = acks(noted, 'run');
  const prefixes = new Set(mine.map(({ tag }) => tag));
  const ran = readLines<ToolRan>(environment.callsFile).filter(({ toolCallId }) =>
    prefixes.has(toolCallId.replace(/^call_/, '').replace(/_\d+$/, '')),
  );
  const journals = new Map<string, readonly StoredEvent[]>();
  for (const [index, { runId }] of mine.entries()) {
    if (!journals.has(runId))
      journals.set(runId, await journalOf(environment, { runId, node: index }));
  }
  const { credentials } = (await (await environment.request('/v1/credentials')).json()) as {
    credentials: Evidence['credentials'];
  };
  return {
    ran,
    noted,
    journals,
    rows: await rowsOf(environment),
    earlier,
    forgotten: await forgotten(environment),
    credentials,
    integrity: await integrity(environment),
    strangeWrites: environment.isShared ? await strangeWrites(environment.postgres) : [],
    secrets: environment.secrets,
    places: [
      ...environment.nodes.map((node, index) => ({
        name: `the log of ${index}`,
        text: node.takeOutput(),
      })),
      { name: 'what the client saw', text: JSON.stringify(noted) },
      { name: 'the journal', text: JSON.stringify([...journals.values()]) },
      ...(await storedText(environment)),
    ],
  };
}

async function journalOf(
  environment: Environment,
  { runId, node }: { runId: string; node: number },
): Promise<StoredEvent[]> {
  const response = await environment.request(`/v1/runs/${runId}/events?limit=5000`, { node });
  if (!response.ok) return [];
  return ((await response.json()) as { events: StoredEvent[] }).events;
}

async function storedText(environment: Environment): Promise<{ name: string; text: string }[]> {
  if (!environment.isShared) {
    const files = ['', '-wal']
      .map((end) => `${environment.database}${end}`)
      .filter((one) => existsSync(one));
    return files.map((name) => ({ name, text: readFileSync(name, 'latin1') }));
  }
  const tables = await environment.query(
    `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`,
  );
  const found: { name: string; text: string }[] = [];
  for (const name of tables.map((row) => String(row['tablename']))) {
    for (const secret of environment.secrets) {
      const rows = await environment.query(
        `SELECT 1 FROM "${name}" t WHERE strpos(t::text, '${secret}') > 0 LIMIT 1`,
      );
      if (rows.length > 0) found.push({ name: `the table ${name}`, text: secret });
    }
  }
  return found;
}
