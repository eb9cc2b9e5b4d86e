/** What function tools bring: clients claim a call and post its result, the operator's programs wait for one. */
import { claimToolCall as claim, postToolResult as post } from '@relay/core';
import {
  type claimBodySchema,
  isEnded,
  type longPollQuerySchema,
  RelayError,
  type toolResultBodySchema,
} from '@relay/protocol';
import type { z } from 'zod';
import { closedSignal } from '../../streaming/event-stream.ts';
import { notFound } from '../errors.ts';
import type { Call, Handler } from './handler.ts';

interface OfCall {
  readonly id: string;
  readonly toolUseId: string;
}

function refOf({ params, caller }: Call) {
  const { id: runId, toolUseId: toolCallId } = params as OfCall;
  return { tenantId: caller.tenantId, runId, toolCallId };
}

export const postToolResult: Handler = async (call) => {
  const { output, isError = false } = call.body as z.infer<typeof toolResultBodySchema>;
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

export const claimToolCall: Handler = async (call) => {
  const body = call.body as z.infer<typeof claimBodySchema>;
  const claimed = await claim(call.context.control, refOf(call), body?.claimId);
  switch (claimed.kind) {
    case 'claimed':
      return { claimId: claimed.claimId, expiresAt: new Date(claimed.until).toISOString() };
    case 'taken':
      throw new RelayError('call_claimed', 'Another client works on this call');
    case 'missing':
      throw notFound('call');
  }
};

const lookMs = 1_000;

/** A long poll: it ends with the result, with the run, with its reader, or when its time is over. */
export const awaitToolResult: Handler = async (call) => {
  const { id: runId, toolUseId } = call.params as OfCall;
  const { waitMs } = call.query as z.infer<typeof longPollQuerySchema>;
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
    if (isEnded(run.status)) throw new RelayError('run_over', 'The run is over');
    if (known === undefined || known.status === 'closed') throw notFound('call');
    if (known.result !== null) {
      const { output, failed } = known.result;
      return { output, ...(failed ? { isError: true } : {}) };
    }
    const left = until - performance.now();
    if (left <= 0 || closed.aborted) {
      return call.reply.code(204).send();
    }
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
