/** Waiting with a run until only a person can bring it on. */
import { isWaitingForAnswer, loadState, type RunRecord } from '@relay/core';
import { dialects, type Frame, type RunStatus, type StoredEvent } from '@relay/protocol';
import { closedSignal } from './event-stream.ts';
import { noValidKey } from '../http/errors.ts';
import { followRun } from './subscribe.ts';
import type { Call } from '../http/handlers/handler.ts';

const deliveryTimeoutMs = 60_000;

export interface IdleFrames {
  readonly status: RunStatus;
  readonly frames: readonly Frame[];
}

export interface From {
  readonly after: number;
  /** A decision that the run must have heard of: what follows it is shown, and nothing before. */
  readonly decided?: string;
}

/** What follows in the words of `/api/chat`, until the run waits or is over, or for a minute. */
export async function collectUntilIdle(
  call: Call,
  run: RunRecord,
  from: From,
): Promise<IdleFrames> {
  const { after, decided } = from;
  const { store, hub, streams } = call.context;
  const tenant = store.tenant(call.caller.tenantId);
  const header = {
    runId: run.id,
    conversationId: run.conversationId,
    correlationId: run.correlationId,
  };
  const frames: Frame[] = [];
  const take = (events: readonly StoredEvent[]) => {
    for (const event of events) {
      const frame = dialects.runtime.project(event, header);
      if (frame !== undefined) frames.push(frame);
    }
  };
  const patience = AbortSignal.timeout(deliveryTimeoutMs);
  const revoked = new AbortController();
  const unwatch = streams.add(call.caller, () => revoked.abort('revoked'));
  const signal = AbortSignal.any([closedSignal(call.reply.raw), patience, revoked.signal]);
  const followed = { store: tenant, hub, runId: run.id };
  const heldUp = () => heldUpAt(call, run.id);
  // A run that is still already is not waited for.
  const goesOn =
    run.status === 'queued' || (run.status === 'running' && (await heldUp()) === undefined);
  const follow = goesOn || decided !== undefined;
  let heard = decided === undefined;
  let before: StoredEvent | undefined;
  let mayBeHeld = false;
  try {
    for await (const batch of followRun(followed, { after, follow, signal })) {
      const told = heard ? batch : followingDecision(batch, before, decided);
      heard ||= told.length > 0;
      before = batch.at(-1);
      take(told);
      if (heard && isStill(told)) break;
      mayBeHeld ||= told.some(mayHoldUp);
      const held: number | undefined = mayBeHeld ? await heldUp() : undefined;
      // Where it stands may lie ahead of what was told so far.
      if (held !== undefined && held <= (before?.seq ?? 0)) break;
      mayBeHeld = held !== undefined;
    }
  } finally {
    unwatch();
  }
  if (revoked.signal.aborted) throw noValidKey();
  const status = (await tenant.readRun(run.id))?.status ?? run.status;
  const isHeld = status === 'running' && (await heldUp()) !== undefined;
  return { status: isHeld ? 'waiting' : status, frames };
}

/** Since when nothing goes on in it until a person answers, although it is not parked. */
async function heldUpAt(call: Call, runId: string): Promise<number | undefined> {
  const { tenantId } = call.caller;
  const store = call.context.store.tenant(tenantId);
  const open = { runId, kind: 'question', status: 'pending' } as const;
  if ((await store.listApprovals(open, { limit: 1 })).length === 0) return undefined;
  const run = await store.readRun(runId);
  if (run?.status !== 'running') return undefined;
  const tools = call.context.control.engine.tools(tenantId);
  const state = await loadState(store, run);
  const isHeld = isWaitingForAnswer(state, (name) => tools.find(name)?.idempotent === true);
  return isHeld ? state.seq : undefined;
}

/** After which there may be nothing at work any more. */
function mayHoldUp({ type }: StoredEvent): boolean {
  return type.startsWith('approval.') || (type.startsWith('tool.') && type !== 'tool.progressed');
}

/** A decision and what comes after it, with the resumption that it brought about. */
function followingDecision(
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

function isStill(batch: readonly StoredEvent[]): boolean {
  const last = batch.findLast(({ type }) => type === 'run.suspended' || type === 'run.resumed');
  return last?.type === 'run.suspended' || batch.some((event) => event.type === 'run.ended');
}
