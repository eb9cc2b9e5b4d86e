/** Sends a decision, and says what became of it. */
import type { RelayClient } from '@relay/sdk';
import { loadDecisionText } from '../output/decision-text.ts';
import type { ApprovalRequest, Decision } from './client.ts';

export type DecisionResult =
  /** The person can decide again, about the approval as it is now. */
  { readonly problem: string } | { readonly note?: string; readonly isPending: boolean };

/** While the server cannot be reached. */
export const unsentNote = 'your decision is sent when the server responds';

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
    const { status, votes = [], quorum } = await client.approvals.decide(id, bound);
    if (status !== 'pending') return { isPending: false };
    const note = `Your approval counts: ${votes.length} of ${quorum}. Waiting for the others.`;
    return { note, isPending: true };
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string };
    if (code === 'approval_conflict') {
      const note = `Your decision does not count: it was already ${await loadDecisionText(client, id)}.`;
      return { note, isPending: false };
    }
    if (code === 'scope_required') {
      const note = `This key cannot decide; approval ${id} waits for another approver.`;
      return { note, isPending: true };
    }
    if (code === 'approval_changed')
      return { problem: '  Another approver changed the arguments.' };
    if (code === 'not_an_approver') {
      return { note: `${message}. Approval ${id} is still pending.`, isPending: true };
    }
    if (correctableCodes.has(code)) return { problem: `  ${message} [${code}]` };
    throw error;
  }
}
