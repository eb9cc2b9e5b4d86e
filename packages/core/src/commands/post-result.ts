/** What clients may do with the calls of their function tools: work on one, and bring its result. */
import { canonicalJson } from '@relay/protocol';
import type { Control } from './start-run.ts';
import type { RunRef } from '../ports/index.ts';

export interface CallRef extends RunRef {
  readonly toolCallId: string;
}

export type ResultOutcome = 'accepted' | 'repeated' | 'contradicted' | 'missing';

/** Stores a result once and for all: the first one counts, by compare-and-set. */
export async function postToolResult(
  control: Control,
  { tenantId, runId, toolCallId }: CallRef,
  brought: { readonly output: unknown; readonly failed: boolean },
): Promise<ResultOutcome> {
  const { engine, supervisor } = control;
  const store = engine.store.tenant(tenantId);
  const digest = engine.digest(canonicalJson({ output: brought.output, failed: brought.failed }));
  const known = await store.readClientCall(runId, toolCallId);
  if (known === undefined) return 'missing';
  const accepted =
    known.status === 'pending' &&
    (await store.postResult({
      runId,
      toolCallId,
      at: engine.clock.now(),
      result: { ...brought, digest },
      queued: { id: engine.ids.next(), command: { kind: 'result', toolCallId } },
    }));
  if (accepted) {
    supervisor.wake({ tenantId, runId });
    return 'accepted';
  }
  const now = known.status === 'pending' ? await store.readClientCall(runId, toolCallId) : known;
  if (now?.result === undefined || now.result === null) return 'missing';
  return now.result.digest === digest ? 'repeated' : 'contradicted';
}

export type ClaimOutcome =
  | { readonly kind: 'claimed'; readonly claimId: string; readonly until: number }
  | { readonly kind: 'taken' | 'missing' };

const claimMs = 30_000;

/** Lets one of several clients work on a call. Whoever has a claim prolongs it by naming it. */
export async function claimToolCall(
  { engine }: Control,
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
  return won ? { kind: 'claimed', claimId, until } : { kind: 'taken' };
}
