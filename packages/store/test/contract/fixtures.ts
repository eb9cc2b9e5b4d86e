import type {
  Append,
  QueuedRunCommand,
  NewApproval,
  Listed,
  NewAuditEntry,
  NewGrant,
  Page,
  ApprovalDecision,
  DecisionCommand,
  RunCreation,
  RunIdentity,
  SystemStore,
  TenantStore,
} from '@relay/core';
import type { Decider, EventOf, RunEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll } from 'vitest';

export interface OpenStore {
  readonly store: SystemStore;
  /** Closes the store and opens it again; left out where nothing is kept. */
  reopen(): Promise<SystemStore>;
  dispose(): Promise<void>;
}

export type Open = () => Promise<OpenStore>;

/** One store for all tests of a suite; each test works in a tenant of its own. */
export function useStore(open: Open): { system(): SystemStore; tenant(): TenantStore } {
  let opened: OpenStore | undefined;
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(async () => {
    await opened?.dispose();
  });
  const system = () => {
    if (opened === undefined) throw new Error('The store is not open');
    return opened.store;
  };
  return { system, tenant: () => system().tenant(uuidv7()) };
}

/** For tests that look at the whole store. */
export async function withStore(open: Open, test: (opened: OpenStore) => Promise<void>) {
  const opened = await open();
  try {
    await test(opened);
  } finally {
    await opened.dispose();
  }
}

export const noon = Date.UTC(2026, 0, 1, 12);

export const person: Decider = { type: 'key', id: 'key-1', name: 'Ada' };
export const clock: Decider = { type: 'timeout', id: 'expiry', name: 'expiry' };

export function identityIn(tenant: TenantStore, over: Partial<RunIdentity> = {}): RunIdentity {
  return {
    id: uuidv7(),
    tenantId: tenant.tenantId,
    conversationId: uuidv7(),
    correlationId: 'request-1',
    surface: 'runs',
    agent: 'assistant',
    model: 'demo',
    labels: {},
    parentRunId: null,
    workflowId: null,
    keyId: null,
    owner: 'ada',
    createdAt: noon,
    ...over,
  };
}

export function newAudit(over: Partial<NewAuditEntry> = {}): NewAuditEntry {
  return {
    id: uuidv7(),
    at: noon,
    action: 'key.created',
    actor: 'key-1',
    runId: null,
    text: '{}',
    proof: 'proof',
    ...over,
  };
}

export interface TestRun {
  readonly id: string;
  readonly conversationId: string;
  readonly tenant: TenantStore;
}

/** A run with one event, held by `node-1` in epoch 1 unless said otherwise. */
export async function newRun(
  tenant: TenantStore,
  over: Partial<Omit<RunCreation, 'identity'>> & { identity?: Partial<RunIdentity> } = {},
): Promise<TestRun> {
  const identity = identityIn(tenant, over.identity);
  await tenant.createRun({
    lease: { owner: 'node-1', until: noon + 15_000 },
    events: [started],
    ...over,
    identity,
  });
  return { id: identity.id, conversationId: identity.conversationId, tenant };
}

export const started: RunEvent = {
  type: 'run.started',
  progress: { partialOutput: '', toolsInvoked: [] },
};

const agentId = uuidv7();
const textId = uuidv7();

export function delta(text: string): EventOf<'text.appended'> {
  return { type: 'text.appended', agentId, textId, text };
}

/** The next step of a run made by `newRun`, of one event unless said otherwise. */
export function step(run: TestRun, over: Partial<Append> = {}): Append {
  return { runId: run.id, epoch: 1, afterSeq: 1, at: noon, events: [delta('a')], ...over };
}

export function ending(run: TestRun, over: Partial<Append> = {}): Append {
  return step(run, { progress: { status: 'completed', endedAt: noon }, ...over });
}

export type RunApproval = NewApproval & { readonly runId: string };

export function newApproval(run: TestRun, over: Partial<NewApproval> = {}): RunApproval {
  return {
    id: uuidv7(),
    kind: 'permission',
    agentId,
    agentPath: ['assistant'],
    toolCallId: 'call_1',
    tool: 'send_note',
    params: { to: 'ada', text: 'hello' },
    digest: 'c0ffee',
    requestedAt: noon,
    expiresAt: noon + 60_000,
    ...over,
    runId: run.id,
  };
}

/** A waiting run without a lease, with one open approval. */
export async function waitingRun(tenant: TenantStore, over: Partial<NewApproval> = {}) {
  const run = await newRun(tenant);
  const approval = newApproval(run, over);
  await tenant.append(
    step(run, { approvals: [approval], progress: { status: 'waiting' }, release: true }),
  );
  return { run, approval };
}

export function decisionOn(
  approval: RunApproval,
  over: Partial<ApprovalDecision> = {},
): ApprovalDecision {
  return {
    approvalId: approval.id,
    runId: approval.runId,
    status: 'approved',
    at: noon + 1,
    by: person,
    reason: null,
    answer: '{"approved":true}',
    queued: decisionCommand(approval.id),
    ...over,
  };
}

export function grantOf(run: TestRun, over: Partial<NewGrant> = {}): NewGrant {
  return {
    id: uuidv7(),
    tool: 'send_note',
    exact: { to: 'ada', n: 1, deep: { list: [null, true] } },
    scope: 'run',
    scopeId: run.id,
    createdAt: noon,
    createdBy: person,
    ...over,
  };
}

export function decisionCommand(approvalId: string): QueuedRunCommand<DecisionCommand> {
  const command = { approvalId, approved: true, always: false, reason: null, by: person };
  return { id: uuidv7(), command: { kind: 'decision', ...command } };
}

export function cancelCommand(reason: string): QueuedRunCommand {
  return { id: uuidv7(), command: { kind: 'cancel', reason, by: person } };
}

export function messageCommand(messageId: string): QueuedRunCommand {
  const from = { type: 'session', id: uuidv7(), name: 'ada' } as const;
  const content = `Text of ${messageId}`;
  return {
    id: uuidv7(),
    command: { kind: 'message', messageId, mode: 'immediate', from, channel: 'ops', content },
  };
}

/** A whole list, by pages of this size. */
/** The ids on all pages of a list that says where the next one begins. */
export async function allListed(
  limit: number,
  list: (page: Page) => Promise<Listed<{ readonly id: string }>>,
): Promise<string[]> {
  const found: string[] = [];
  let page: Page = { limit };
  for (let pages = 0; pages < 1_000; pages += 1) {
    const { items, next } = await list(page);
    found.push(...items.map(({ id }) => id));
    if (next === null) return found;
    page = { limit, before: next };
  }
  throw new Error('The pages do not come to an end');
}

export async function allPages<Entry extends { readonly id: string }>(
  limit: number,
  read: (page: Page) => Promise<Entry[]>,
  timeOf: (entry: Entry) => number,
): Promise<string[]> {
  const found: string[] = [];
  let page: Page = { limit };
  while (found.length < 1_000) {
    const entries = await read(page);
    found.push(...entries.map(({ id }) => id));
    const last = entries.at(-1);
    if (last === undefined || entries.length < limit) return found;
    page = { limit, before: { at: timeOf(last), id: last.id } };
  }
  throw new Error('The pages do not come to an end');
}

/** Texts that a store might change, cut or take for something else, by what they are. */
export const hostileText: Readonly<Record<string, string>> = {
  NUL: 'a\u0000b',
  'a lone high surrogate': 'a\uD83Db',
  'a lone low surrogate': '\uDE00',
  emoji: '👩‍👩‍👧‍👦🏳️‍🌈',
  'control characters': '\u0001\u001f\u007f\u0080\u2028\u2029\ufeff',
  quotes: `'"\`;--/* */ \\ \\u0000 ? $1 :a @b %s`,
  'frame-like lines': 'x\n\ndata: {}\r\n\revent: y',
  nothing: '',
  'a non-character': '\uFFFE\uFFFF',
};
