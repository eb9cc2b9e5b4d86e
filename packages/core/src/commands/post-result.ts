/** Function tools: clients claim calls and post their results. */
import { canonicalJson, defined } from '@relay/protocol';
import type { RunControl } from './start-run.ts';
import type { RunRef } from '../ports/index.ts';

export interface CallRef extends RunRef {
  readonly toolCallId: string;
}

export type ResultOutcome = 'accepted' | 'duplicate' | 'conflict' | 'missing';

/** Stores the result of a call. The first result counts, by compare-and-set. */
export async function postToolResult(
  control: RunControl,
  { tenantId, runId, toolCallId }: CallRef,
  {
    context,
    ...result
  }: {
    readonly output: unknown;
    readonly failed: boolean;
    /** The text for the model instead of the output; not used if the function failed. */
    readonly context?: string | undefined;
  },
): Promise<ResultOutcome> {
  const { engine, supervisor } = control;
  const store = engine.store.tenant(tenantId);
  const digest = engine.digest(
    canonicalJson(defined({ output: result.output, failed: result.failed, context })),
  );
  const known = await store.readClientCall(runId, toolCallId);
  if (known === undefined) return 'missing';
  const accepted =
    known.status === 'pending' &&
    (await store.postResult({
      runId,
      toolCallId,
      at: engine.clock.now(),
      result: { ...result, digest },
      queued: { id: engine.ids.next(), command: defined({ kind: 'result', toolCallId, context }) },
    }));
  if (accepted) {
    supervisor.wake({ tenantId, runId });
    return 'accepted';
  }
  const now = known.status === 'pending' ? await store.readClientCall(runId, toolCallId) : known;
  if (now?.result === undefined || now.result === null) return 'missing';
  return now.result.digest === digest ? 'duplicate' : 'conflict';
}

export type ClaimOutcome =
  | {
      readonly kind: 'claimed';
      readonly claimId: string;
      readonly until: number;
      /** By another client, which may have run the call. A repeated claim says the same. */
      readonly claimedBefore: boolean;
    }
  | { readonly kind: 'taken' | 'missing' };

const claimMs = 30_000;

/** Claims a call for one of several clients. A client prolongs its claim by naming it. */
export async function claimToolCall(
  { engine }: RunControl,
  { tenantId, runId, toolCallId }: CallRef,
  held?: string,
): Promise<ClaimOutcome> {
  const store = engine.store.tenant(tenantId);
  const now = engine.clock.now();
  const known = await store.readClientCall(runId, toolCallId);
  if (known?.status !== 'pending' || known.resultBy <= now) return { kind: 'missing' };
  const claimId = held ?? engine.ids.next();
  const until = Math.min(now + claimMs, known.resultBy);
  const won = await store.claimCall({ runId, toolCallId, claimId, now, until });
  if (!won) return { kind: 'taken' };
  // Read after the claim: between the first read and the claim another client can have had one.
  const claimed = await store.readClientCall(runId, toolCallId);
  return { kind: 'claimed', claimId, until, claimedBefore: claimed?.claimedBefore !== false };
}
