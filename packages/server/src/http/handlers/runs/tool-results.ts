/** Calls of function tools: clients claim a call and post its result; internal programs wait for it. */
import * as core from '@relay/core';
import { isEnded, personOf, RelayError } from '@relay/protocol';
import { closedSignal } from '../../../streaming/response-writer.ts';
import { notFound } from '../../errors.ts';
import { iso } from '../../views/pagination.ts';
import { type Handler, type RouteRequest, storeOf } from '../handler.ts';

/** The call that this caller may answer: one of its own runs, or any with the scope `worker`. */
async function findCall(call: RouteRequest<'postToolResult' | 'claimToolCall'>) {
  const { caller, params } = call;
  const { id: runId, toolUseId: toolCallId } = params;
  if (!caller.scopes.has('worker')) {
    const run = await storeOf(call).readRunHead(runId);
    if (run === undefined) throw notFound('call');
    if (run.owner !== personOf(caller.actor)) {
      throw new RelayError(
        'not_run_owner',
        'This run belongs to another owner: use a key of that owner, or one with the scope worker',
      );
    }
  }
  return { tenantId: caller.tenantId, runId, toolCallId };
}

export const postToolResult: Handler<'postToolResult'> = async (call) => {
  const { output, context, isError = false } = call.body;
  const outcome = await core.postToolResult(call.context.control, await findCall(call), {
    output,
    context,
    failed: isError,
  });
  switch (outcome) {
    case 'accepted':
    case 'duplicate':
      return { ok: true };
    case 'conflict':
      throw new RelayError('tool_result_conflict', 'This call already has a different result');
    case 'missing':
      throw notFound('call');
  }
};

export const claimToolCall: Handler<'claimToolCall'> = async (call) => {
  const ref = await findCall(call);
  const claimed = await core.claimToolCall(call.context.control, ref, call.body?.claimId);
  switch (claimed.kind) {
    case 'claimed': {
      const { claimId, until, claimedBefore } = claimed;
      return { claimId, expiresAt: iso(until), claimedBefore };
    }
    case 'taken':
      throw new RelayError('call_claimed', 'Another client has claimed this call');
    case 'missing':
      throw notFound('call');
  }
};

const pollMs = 1_000;

/** A long poll. It ends with the result, the run, the connection or the server, or after `waitMs`. */
export const awaitToolResult: Handler<'awaitToolResult'> = async (call) => {
  const { id: runId, toolUseId } = call.params;
  const { waitMs } = call.query;
  const { store, hub, control } = call.context;
  const tenantId = await store.tenantOfRun(runId);
  if (tenantId === undefined) throw notFound('call');
  const tenant = store.tenant(tenantId);
  const deadline = performance.now() + waitMs;
  const closing = new AbortController();
  const remove = call.context.streams.add(call.caller, (reason) => closing.abort(reason));
  const signal = AbortSignal.any([closedSignal(call.reply.raw), closing.signal]);
  const changed = new core.Signal();
  // It reads the store often enough without a comparison.
  const stopListening = hub.add(runId, { receive: () => changed.notify(), lastSeq: Infinity });
  try {
    for (;;) {
      const run = await tenant.readRunHead(runId);
      const clientCall = await tenant.readClientCall(runId, toolUseId);
      if (run === undefined) throw notFound('call');
      if (isEnded(run.status))
        throw new RelayError('result_gone', 'The run has ended without a result for this call');
      if (clientCall === undefined || clientCall.status === 'closed') throw notFound('call');
      if (clientCall.result !== null) {
        const { output, failed } = clientCall.result;
        return { output, isError: failed ? true : undefined };
      }
      const left = deadline - performance.now();
      if (left <= 0 || signal.aborted) return undefined;
      await changed.waitFor({ clock: control.engine.clock, ms: Math.min(left, pollMs), signal });
    }
  } finally {
    remove();
    stopListening();
  }
};
