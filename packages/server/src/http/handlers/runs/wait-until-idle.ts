/** Waits for a run until it ends or waits for a person. */
import { isWaitingForAnswer, loadState, type RunRecord } from '@relay/core';
import { dialects, type Frame, type RunStatus, type StoredEvent } from '@relay/protocol';
import { closedSignal } from '../../../streaming/response-writer.ts';
import { unauthorized } from '../../errors.ts';
import { runHeader } from '../../../streaming/stream-run.ts';
import { followRun } from '../../../streaming/subscribe.ts';
import type { ApiRequest } from '../handler.ts';

const timeoutMs = 60_000;

export interface WaitOptions {
  readonly after: number;
  /** The id of a decided approval: only the decision and what follows it count. */
  readonly decided?: string;
}

/** The frames of `/api/chat` until the run waits or ends, for at most a minute. */
export async function collectUntilIdle(
  call: ApiRequest,
  run: RunRecord,
  options: WaitOptions,
): Promise<{ status: RunStatus; frames: readonly Frame[] }> {
  const header = runHeader(run);
  const frames: Frame[] = [];
  const collect = (events: readonly StoredEvent[]) => {
    for (const event of events) {
      const frame = dialects.runtime.project(event, header);
      if (frame !== undefined) frames.push(frame);
    }
  };
  const status = await waitUntilIdle(call, run, { ...options, timeoutMs, onEvents: collect });
  return { status, frames };
}

interface IdleOptions extends WaitOptions {
  readonly timeoutMs: number;
  readonly onEvents: (events: readonly StoredEvent[]) => void;
}

/**
 * Waits until the run ends or waits for a person. The time, the connection and the server end the wait,
 * and not the run. Nothing is held meanwhile but a subscription to the run. Returns the status.
 */
export async function waitUntilIdle(
  call: ApiRequest,
  run: RunRecord,
  { after, decided, timeoutMs: waitMs, onEvents }: IdleOptions,
): Promise<RunStatus> {
  const { store, hub, streams } = call.context;
  const tenant = store.tenant(call.caller.tenantId);
  const timeout = AbortSignal.timeout(waitMs);
  const closing = new AbortController();
  const remove = streams.add(call.caller, (reason) => closing.abort(reason));
  const signal = AbortSignal.any([closedSignal(call.reply.raw), timeout, closing.signal]);
  const source = { store: tenant, hub, runId: run.id };
  const idleSeq = () => idleSeqOf(call, run.id);
  const isActive =
    run.status === 'queued' || (run.status === 'running' && (await idleSeq()) === undefined);
  // A run that is idle already is not waited for.
  const follow = isActive || decided !== undefined;
  let counting = decided === undefined;
  let previous: StoredEvent | undefined;
  let mayBeIdle = false;
  try {
    for await (const batch of followRun(source, { after, follow, signal })) {
      const events = counting ? batch : sinceDecision(batch, previous, decided);
      counting ||= events.length > 0;
      previous = batch.at(-1);
      onEvents(events);
      if (counting && isSuspendedOrEnded(events)) break;
      mayBeIdle ||= events.some(canChangeIdleState);
      const seq: number | undefined = mayBeIdle ? await idleSeq() : undefined;
      // The stored run may be ahead of the batches read so far.
      if (seq !== undefined && seq <= (previous?.seq ?? 0)) break;
      mayBeIdle = seq !== undefined;
    }
  } finally {
    remove();
  }
  if (closing.signal.reason === 'revoked') throw unauthorized();
  const status = (await tenant.readRun(run.id))?.status ?? run.status;
  const isIdle = status === 'running' && (await idleSeq()) !== undefined;
  return isIdle ? 'waiting' : status;
}

/**
 * The seq at which a running run became idle: it is not suspended, but all that is left to do waits for
 * an answer of a person. Undefined if it is not idle.
 */
async function idleSeqOf(call: ApiRequest, runId: string): Promise<number | undefined> {
  const { tenantId } = call.caller;
  const store = call.context.store.tenant(tenantId);
  const open = { runId, kind: 'question', status: 'pending' } as const;
  if ((await store.listApprovals(open, { limit: 1 })).items.length === 0) return undefined;
  const run = await store.readRun(runId);
  if (run?.status !== 'running') return undefined;
  const tools = call.context.control.engine.tools(tenantId);
  const state = await loadState(store, run);
  const isIdle = isWaitingForAnswer(state, (name) => tools.find(name)?.idempotent === true);
  return isIdle ? state.seq : undefined;
}

function canChangeIdleState({ type }: StoredEvent): boolean {
  return type.startsWith('approval.') || (type.startsWith('tool.') && type !== 'tool.progressed');
}

/** The decision and what follows it, with the `run.resumed` right before it. */
function sinceDecision(
  batch: readonly StoredEvent[],
  before: StoredEvent | undefined,
  decided: string | undefined,
): readonly StoredEvent[] {
  const at = batch.findIndex(
    (event) => event.type === 'approval.decided' && event.approvalId === decided,
  );
  if (at < 0) return [];
  const previous = at === 0 ? before : batch[at - 1];
  const rest = batch.slice(at);
  return previous?.type === 'run.resumed' ? [previous, ...rest] : rest;
}

function isSuspendedOrEnded(batch: readonly StoredEvent[]): boolean {
  const last = batch.findLast(({ type }) => type === 'run.suspended' || type === 'run.resumed');
  return last?.type === 'run.suspended' || batch.some((event) => event.type === 'run.ended');
}
