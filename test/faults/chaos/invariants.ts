/**
 * The invariants that are checked after every recovery. Each function returns its violations. The
 * records of the tool server and the client are trusted; the store is not.
 */
import { dialects, isEnded, type StoredEvent } from '@relay/protocol';
import { acks, type Evidence, type RunRow } from './record.ts';

type Invariant = (evidence: Evidence) => readonly string[];

function* events(evidence: Evidence): Generator<readonly [string, StoredEvent]> {
  for (const [runId, journal] of evidence.journals) {
    for (const event of journal) yield [runId, event];
  }
}

function eventsOf<Type extends StoredEvent['type']>(evidence: Evidence, type: Type) {
  type Found = Extract<StoredEvent, { type: Type }>;
  return [...events(evidence)].flatMap(([runId, event]) =>
    event.type === type ? [{ runId, event: event as Found }] : [],
  );
}

const everyAcknowledgedRunExists: Invariant = ({ noted, journals }) =>
  acks(noted, 'run').flatMap(({ runId, tag }) => {
    const first = journals.get(runId)?.[0];
    if (first?.type !== 'run.created') return [`run ${runId} (${tag}) is gone`];
    // The message is stored unchanged.
    return JSON.stringify(first).includes(` ${tag}"`) ? [] : [`run ${runId} lost its message`];
  });

const everyAcknowledgedDecisionExists: Invariant = (evidence) => {
  const decided = new Map(
    eventsOf(evidence, 'approval.decided').map(({ event }) => [event.approvalId, event.approved]),
  );
  return acks(evidence.noted, 'decision').flatMap(({ approvalId, approved }) =>
    decided.get(approvalId) === approved
      ? []
      : [`decision on ${approvalId} is missing or different`],
  );
};

const everyAcknowledgedResultExists: Invariant = (evidence) => {
  const results = new Map(
    eventsOf(evidence, 'tool.completed').map(({ runId, event }) => [
      `${runId} ${event.toolCallId}`,
      JSON.stringify(event.result),
    ]),
  );
  return acks(evidence.noted, 'result').flatMap(({ runId, call, output }) =>
    results.get(`${runId} ${call}`) === JSON.stringify(output) ? [] : [`result of ${call} is gone`],
  );
};

const everyAcknowledgedCredentialExists: Invariant = ({ noted, credentials }) =>
  acks(noted, 'credential').flatMap(({ provider, answer }) =>
    credentials.some((one) => one.provider === provider && one.last4 === answer.last4)
      ? []
      : [`the credential ${provider} is gone`],
  );

const everyAcknowledgedCancelIsObeyed: Invariant = (evidence) =>
  acks(evidence.noted, 'cancel').flatMap(({ runId }) => {
    const end = evidence.journals.get(runId)?.at(-1);
    return end?.type === 'run.ended' && isEnded(end.status) ? [] : [`${runId} has not ended`];
  });

const seqCountsFromOne: Invariant = ({ journals, rows }) => {
  const wrong: string[] = [];
  for (const [runId, journal] of journals) {
    if (journal.some(({ seq }, index) => seq !== index + 1)) wrong.push(`${runId} has a gap`);
    const row = rows.find(({ id }) => id === runId);
    if (row !== undefined && row.last_seq !== journal.length) wrong.push(`${runId} ends elsewhere`);
  }
  return wrong;
};

const framesAreTheJournal: Invariant = ({ noted, journals }) =>
  noted.flatMap((line) => {
    if (line.kind !== 'frame') return [];
    // Frames of this dialect do not contain these two ids.
    const run = { runId: line.runId, conversationId: '', correlationId: '' };
    const event = journals.get(line.runId)?.[line.seq - 1];
    const frame = event === undefined ? undefined : dialects.runs.project(event, run);
    return isSame(frame, line.data)
      ? []
      : [`frame ${line.seq} of ${line.runId} is not the journal's`];
  });

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => [name, sorted(each)]),
  );
}

const isIdempotent = (tool: string) => tool === 'look';

const noToolRanTwice: Invariant = ({ ran }) => {
  const seen = new Set<string>();
  return ran.flatMap(({ tool, toolCallId }) => {
    if (isIdempotent(tool)) return [];
    const again = seen.has(toolCallId);
    seen.add(toolCallId);
    return again ? [`${tool} ran twice for ${toolCallId}`] : [];
  });
};

const idempotentToolsKeptTheirKey: Invariant = ({ ran }) => {
  const keys = new Map<string, string>();
  return ran.flatMap(({ toolCallId, idempotencyKey }) => {
    const before = keys.get(toolCallId) ?? idempotencyKey;
    keys.set(toolCallId, before);
    return before === idempotencyKey ? [] : [`${toolCallId} ran with a different key`];
  });
};

const intentCameBeforeEffect: Invariant = (evidence) => {
  const intents = new Set(eventsOf(evidence, 'tool.started').map(({ event }) => event.toolCallId));
  return evidence.ran.flatMap(({ toolCallId }) =>
    intents.has(toolCallId) ? [] : [`${toolCallId} ran without a stored intent`],
  );
};

/** A call that ran has its result, or it is recorded that the outcome is unknown. */
const effectsAreOnRecord: Invariant = (evidence) => {
  const known = new Set([
    ...eventsOf(evidence, 'tool.completed').map(({ event }) => event.toolCallId),
    ...eventsOf(evidence, 'tool.failed').map(({ event }) => event.toolCallId),
    ...eventsOf(evidence, 'approval.requested').flatMap(({ event }) =>
      event.kind === 'outcome' ? [event.toolCallId] : [],
    ),
  ]);
  return evidence.ran.flatMap(({ toolCallId }) =>
    known.has(toolCallId) ? [] : [`${toolCallId} ran, but its outcome is not recorded`],
  );
};

const oneDecisionPerApproval: Invariant = (evidence) => {
  const seen = new Set<string>();
  const ends = (['approval.decided', 'approval.expired', 'approval.closed'] as const).flatMap(
    (type) => eventsOf(evidence, type),
  );
  return ends.flatMap(({ event: { approvalId } }) => {
    const again = seen.has(approvalId);
    seen.add(approvalId);
    return again ? [`${approvalId} was answered twice`] : [];
  });
};

const nothingRanUndecided: Invariant = (evidence) => {
  const asked = eventsOf(evidence, 'approval.requested').filter(
    ({ event }) => event.kind === 'permission',
  );
  const decided = new Map(
    eventsOf(evidence, 'approval.decided').map(({ event }) => [event.approvalId, event]),
  );
  const approvals = new Map(asked.map(({ event }) => [event.toolCallId, event.approvalId]));
  return evidence.ran.flatMap(({ toolCallId, at }) => {
    const approvalId = approvals.get(toolCallId);
    if (approvalId === undefined) return [];
    const decision = decided.get(approvalId);
    if (decision === undefined) return [`${toolCallId} ran without a decision`];
    if (!decision.approved) return [`${toolCallId} ran although it was denied`];
    return Date.parse(decision.at) <= at ? [] : [`${toolCallId} ran before it was approved`];
  });
};

const allowOnceAllowsOnce: Invariant = ({ noted, ran }) =>
  acks(noted, 'run').flatMap(({ tag, scenario }) => {
    if (scenario !== 'once') return [];
    const calls = ran.filter(({ toolCallId }) => toolCallId.startsWith(`call_${tag}_`));
    return calls.length <= 1 ? [] : [`${tag} was allowed once and ran ${calls.length} times`];
  });

const epochsOnlyRise: Invariant = ({ earlier, rows }) => {
  const highest = new Map<string, number>();
  return [...earlier, rows].flatMap((at: readonly RunRow[]) =>
    at.flatMap(({ id, epoch }) => {
      const before = highest.get(id) ?? 0;
      highest.set(id, Math.max(before, epoch));
      return epoch < before ? [`the epoch of ${id} fell from ${before} to ${epoch}`] : [];
    }),
  );
};

const onlyTheHolderWrites: Invariant = ({ strangeWrites }) => strangeWrites;

const oneTerminalEvent: Invariant = ({ journals }) =>
  [...journals].flatMap(([runId, journal]) => {
    const ends = journal.flatMap(({ type, seq }) => (type === 'run.ended' ? [seq] : []));
    if (ends.length === 1 && ends[0] === journal.length) return [];
    return [`${runId} has ended at ${ends.join(', ') || 'no index'} of ${journal.length}`];
  });

const everyWaitCanEnd: Invariant = ({ forgotten }) =>
  forgotten.map((id) => `${id} waits, but nothing will wake it`);

/** A store that fails delays a run; it never ends one. */
const noRunFailsByTheStore: Invariant = (evidence) =>
  eventsOf(evidence, 'run.ended').flatMap(({ runId, event: { error } }) =>
    error !== undefined && storeErrors.has(error.code)
      ? [`${runId} failed with ${error.code}: ${error.message}`]
      : [],
  );

const storeErrors = new Set(['storage_failed', 'storage_full', 'internal']);

/** A process that is killed at random times was not killed by its runs. */
const noRunIsBlamedForACrash: Invariant = (evidence) =>
  eventsOf(evidence, 'run.ended').flatMap(({ runId, event: { error } }) =>
    error?.code === 'resume_crashed' ? [`${runId} failed: ${error.message}`] : [],
  );

const sqliteIsIntact: Invariant = ({ integrity }) => integrity.filter((word) => word !== 'ok');

const noSecretLeaks: Invariant = ({ secrets, places }) =>
  places.flatMap(({ name, text }) =>
    secrets.some((secret) => text.includes(secret)) ? [`a secret is in ${name}`] : [],
  );

/** Requests that were rejected for good, or got no response: none are expected here. */
const noRequestWasRejected: Invariant = ({ noted }) =>
  noted.flatMap((line) =>
    line.kind === 'trouble' ? [`a request failed: ${JSON.stringify(line).slice(0, 300)}`] : [],
  );

export const invariants: Readonly<Record<string, Invariant>> = {
  everyAcknowledgedRunExists,
  everyAcknowledgedDecisionExists,
  everyAcknowledgedResultExists,
  everyAcknowledgedCredentialExists,
  everyAcknowledgedCancelIsObeyed,
  seqCountsFromOne,
  framesAreTheJournal,
  noToolRanTwice,
  idempotentToolsKeptTheirKey,
  intentCameBeforeEffect,
  effectsAreOnRecord,
  oneDecisionPerApproval,
  nothingRanUndecided,
  allowOnceAllowsOnce,
  epochsOnlyRise,
  onlyTheHolderWrites,
  oneTerminalEvent,
  everyWaitCanEnd,
  noRunFailsByTheStore,
  noRunIsBlamedForACrash,
  sqliteIsIntact,
  noSecretLeaks,
  noRequestWasRejected,
};

export function violationsOf(evidence: Evidence): string[] {
  return Object.entries(invariants).flatMap(([name, holds]) =>
    holds(evidence).map((what) => `${name}: ${what}`),
  );
}

/** How many runs came to the end that they were meant to have. */
export function successOf({ noted, journals }: Evidence): { runs: number; succeeded: number } {
  const runs = acks(noted, 'run');
  const succeeded = runs.filter(({ runId, scenario }) => {
    const end = journals.get(runId)?.at(-1);
    const meant = scenario === 'cancel' ? 'canceled' : 'completed';
    return end?.type === 'run.ended' && end.status === meant;
  });
  return { runs: runs.length, succeeded: succeeded.length };
}
