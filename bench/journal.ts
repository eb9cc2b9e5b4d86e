/**
 * Events appended to a journal and followed to their reader, against bare batched inserts into the
 * same kind of file. Both are durable: WAL, synchronous=FULL.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { evolve, initialState, RunJournal, type RunIdentity, type SystemStore } from '@relay/core';
import type { EventOf, RunEvent, StoredEvent } from '@relay/protocol';
import { openSqliteStore } from '@relay/store';
import { Hub } from '../packages/server/src/streaming/hub.ts';
import { followRun } from '../packages/server/src/streaming/subscribe.ts';
import { compare, show } from './measure.ts';

const writers = 16;
const eventsPerWriter = 10_000;
const total = writers * eventsPerWriter;
const rowsPerCommit = 100;

let counter = 0;
function nextId(): string {
  counter += 1;
  return `01900000-0000-7000-8000-${counter.toString(16).padStart(12, '0')}`;
}

function inFolder<Result>(work: (dir: string) => Promise<Result>): Promise<Result> {
  const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
  return work(dir).finally(() => rmSync(dir, { recursive: true, force: true }));
}

/** One row an event, a hundred rows a commit: the most that plain SQLite does with this shape. */
async function bareInserts(dir: string): Promise<number> {
  const db = new DatabaseSync(join(dir, 'bare.db'));
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  db.exec('CREATE TABLE events (run TEXT, seq INTEGER, data TEXT, PRIMARY KEY (run, seq))');
  const insert = db.prepare('INSERT INTO events VALUES (?, ?, ?)');
  const began = performance.now();
  for (let done = 0; done < total; done += rowsPerCommit) {
    db.exec('BEGIN');
    for (let row = done; row < done + rowsPerCommit; row += 1) {
      const data = JSON.stringify({ type: 'text.appended', text: ` word${row % 97}` });
      insert.run(`run-${row % writers}`, row, data);
    }
    db.exec('COMMIT');
  }
  const rate = total / ((performance.now() - began) / 1000);
  db.close();
  return rate;
}

/** The kernel's own path: journal, store, hub, follower. */
async function journalled(dir: string): Promise<number> {
  const store = await openSqliteStore({ dir });
  const hub = new Hub(async () => new Map());
  const tenant = await store.ensureTenant({ id: nextId(), name: 'bench', at: Date.now() });
  const runs = await Promise.all(
    Array.from({ length: writers }, () => openRun(store, hub, tenant.id)),
  );
  const began = performance.now();
  await Promise.all(runs.flatMap((run) => [write(run), follow(run, { store, hub })]));
  const rate = total / ((performance.now() - began) / 1000);
  await store.close();
  return rate;
}

interface OpenRun {
  readonly identity: RunIdentity;
  readonly journal: RunJournal;
  readonly agentId: string;
  readonly textId: string;
  readonly firstSeq: number;
}

async function openRun(
  store: SystemStore,
  hub: Hub<StoredEvent>,
  tenantId: string,
): Promise<OpenRun> {
  const identity: RunIdentity = {
    id: nextId(),
    tenantId,
    conversationId: nextId(),
    correlationId: 'bench',
    surface: 'runs',
    agent: 'assistant',
    model: 'bench',
    labels: {},
    parentRunId: null,
    workflowId: null,
    keyId: null,
    owner: 'ada',
    createdAt: Date.now(),
  };
  const created: EventOf<'run.created'> = {
    type: 'run.created',
    surface: 'runs',
    agent: 'assistant',
    model: 'bench',
    conversationId: identity.conversationId,
    correlationId: 'bench',
    messages: [],
    history: null,
    tools: [],
    permissions: {},
    maxIterations: 1,
    labels: {},
  };
  await store.tenant(tenantId).createRun({
    identity,
    lease: { owner: 'bench', until: Date.now() + 600_000 },
    events: [created],
  });
  const journal = new RunJournal({
    run: identity,
    epoch: 1,
    state: evolve(initialState, { ...created, seq: 1, at: new Date().toISOString() }),
    store: store.tenant(tenantId),
    clock: { now: Date.now, sleep: async () => undefined },
    publisher: hub,
    log: { error: () => undefined },
    observe: () => undefined,
  });
  const agentId = nextId();
  const textId = nextId();
  await journal.write([
    { type: 'run.started', progress: { partialOutput: '', toolsInvoked: [] } },
    { type: 'agent.started', agentId, name: 'assistant', model: 'bench' },
    { type: 'turn.started', agentId, turn: 1, textId, reasoningId: nextId() },
  ]);
  return { identity, journal, agentId, textId, firstSeq: journal.state.seq };
}

async function write({ journal, agentId, textId }: OpenRun): Promise<void> {
  for (let row = 0; row < eventsPerWriter; row += 1) {
    const event: RunEvent = { type: 'text.appended', agentId, textId, text: ` word${row % 97}` };
    journal.append([event]);
    // A model delivers a few tokens at a time, and the others get their turn in between.
    if (row % 10 === 9) await new Promise((resolve) => setImmediate(resolve));
    if (journal.backlog > 1000) await journal.settled();
  }
  await journal.settled();
}

async function follow(
  run: OpenRun,
  at: { store: SystemStore; hub: Hub<StoredEvent> },
): Promise<void> {
  const stop = new AbortController();
  const batches = followRun(
    { store: at.store.tenant(run.identity.tenantId), hub: at.hub, runId: run.identity.id },
    { after: run.firstSeq, follow: true, signal: stop.signal },
  );
  let seen = 0;
  for await (const batch of batches) {
    seen += batch.length;
    if (seen === eventsPerWriter) return;
  }
}

export async function benchJournal(rounds: number): Promise<void> {
  const rows = await compare(
    [
      { name: `bare inserts, ${rowsPerCommit} a commit`, run: () => inFolder(bareInserts) },
      { name: `journal, ${writers} runs, followed`, run: () => inFolder(journalled) },
    ],
    rounds,
  );
  show('Journal: events appended, stored and followed', rows, 'events/s');
}
