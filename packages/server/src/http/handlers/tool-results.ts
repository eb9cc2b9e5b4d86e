/** What function tools bring: clients claim a call and post its result, the operator's programs wait for one. */
import { claimToolCall as claim, postToolResult as post } from '@relay/core';
import { isEnded, RelayError } from '@relay/protocol';
import { closedSignal } from '../../streaming/event-stream.ts';
import { notFound } from '../errors.ts';
import type { Call, Handler, RouteCall } from './handler.ts';
import { iso } from '../views/time.ts';

function refOf({ params, caller }: RouteCall<'postToolResult' | 'claimToolCall'>) {
  const { id: runId, toolUseId: toolCallId } = params;
  return { tenantId: caller.tenantId, runId, toolCallId };
}

export const postToolResult: Handler<'postToolResult'> = async (call) => {
  const { output, isError = false } = call.body;
  const outcome = await post(call.context.control, refOf(call), { output, failed: isError });
  switch (outcome) {
    case 'accepted':
    case 'repeated':
      return { ok: true };
    case 'contradicted':
      throw new RelayError('tool_result_conflict', 'This call already has another result');
    case 'missing':
      throw notFound('call');
  }
};

export const claimToolCall: Handler<'claimToolCall'> = async (call) => {
  const body = call.body;
  const claimed = await claim(call.context.control, refOf(call), body?.claimId);
  switch (claimed.kind) {
    case 'claimed':
      return { claimId: claimed.claimId, expiresAt: iso(claimed.until) };
    case 'taken':
      throw new RelayError('call_claimed', 'Another client works on this call');
    case 'missing':
      throw notFound('call');
  }
};

const lookMs = 1_000;

/** A long poll: it ends with the result, with the run, with its reader, or when its time is over. */
export const awaitToolResult: Handler<'awaitToolResult'> = async (call) => {
  const { id: runId, toolUseId } = call.params;
  const { waitMs } = call.query;
  const { store, hub } = call.context;
  const tenantId = await store.tenantOfRun(runId);
  if (tenantId === undefined) throw notFound('call');
  const tenant = store.tenant(tenantId);
  const until = performance.now() + waitMs;
  const closed = closedSignal(call.reply.raw);
  for (;;) {
    const [run, known] = [
      await tenant.readRunHead(runId),
      await tenant.readClientCall(runId, toolUseId),
    ];
    if (run === undefined) throw notFound('call');
    if (isEnded(run.status)) throw new RelayError('result_gone', 'The run has ended');
    if (known === undefined || known.status === 'closed') throw notFound('call');
    if (known.result !== null) {
      const { output, failed } = known.result;
      return { output, isError: failed ? true : undefined };
    }
    const left = until - performance.now();
    if (left <= 0 || closed.aborted) return undefined;
    await somethingNew({ hub, runId, closed }, Math.min(left, lookMs));
  }
};

interface Waiting {
  readonly hub: Call['context']['hub'];
  readonly runId: string;
  readonly closed: AbortSignal;
}

/** The run says something, the reader leaves, or it is time to look. */
function somethingNew({ hub, runId, closed }: Waiting, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stopListening();
      closed.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    const stopListening = hub.listen(runId, done);
    closed.addEventListener('abort', done);
  });
}
