/** Sends a decision, and says what became of it. */
import type { RelayClient } from '@relay/sdk';
import { loadDecisionText, votesText } from '../output/decision-text.ts';
import { type ApprovalRequest, type Decision, shownDigest } from './client.ts';

export type DecisionResult =
  /** The person can decide again, about the approval as it is now. */
  | { readonly problem: string }
  | {
      readonly note?: string;
      readonly isPending: boolean;
      /** Of what was decided. */
      readonly digest: string | undefined;
    };

/** While the server cannot be reached. */
export const unsentNote = 'your decision is sent when the server accepts it';

/** The person can correct a decision that was rejected with one of these. */
const correctableCodes = new Set([
  'tool_input_invalid',
  'denied_by_rule',
  'tool_unavailable',
  'invalid_request',
]);

export async function decideApproval(
  client: RelayClient,
  { id, digest }: ApprovalRequest,
  decision: Decision,
): Promise<DecisionResult> {
  try {
    const bound = decision.approved === true ? { ...decision, digest } : decision;
    const decided = await client.approvals.decide(id, bound);
    if (decided.status !== 'pending') return { isPending: false, digest };
    const note = `Your approval counts: ${votesText(decided)}. Waiting for the others.`;
    return { note, isPending: true, digest: shownDigest(decided) };
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string };
    if (code === 'approval_conflict') {
      const note = `Your decision does not count: it was already ${await loadDecisionText(client, id)}.`;
      return { note, isPending: false, digest };
    }
    if (code === 'scope_required') {
      const note = `This key cannot decide; approval ${id} waits for another approver.`;
      return { note, isPending: true, digest };
    }
    const isChanged = code === 'approval_changed' && (await hasChanged(client, id, digest));
    if (isChanged) return { problem: '  The arguments were changed since they were shown.' };
    if (code === 'not_an_approver' || code === 'approval_changed') {
      return { note: `${message}. Approval ${id} is still pending.`, isPending: true, digest };
    }
    if (correctableCodes.has(code)) return { problem: `  ${message} [${code}]` };
    throw error;
  }
}

/** Otherwise the paths in the arguments lead elsewhere by now: the same request would be refused again. */
async function hasChanged(client: RelayClient, id: string, digest: string | undefined) {
  return shownDigest(await client.approvals.get(id)) !== digest;
}
