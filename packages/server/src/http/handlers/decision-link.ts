/**
 * `/decide/:token`: one approval, decided by the holder of its link.
 *
 * The token is the only credential: it is signed by Relay and names one approval as it was requested.
 * It is valid until the approval is decided or expires, and as long as the key that created the webhook
 * is. A GET shows the approval; only a POST that does not come from another site decides it.
 */
import { recordDecision, type ApprovalRecord, type WebhookRecord } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import { isValidKey, rejectForeignHost } from '../auth.ts';
import { invalidField, notFound } from '../errors.ts';
import { decidedPage, maxReasonChars, pageHeaders, pendingPage } from '../views/decision-page.ts';
import { readToken } from '../../secrets/webhook-signer.ts';
import { statusNow } from './approvals.ts';
import type { LinkRequest, LinkHandler, ServerContext } from './handler.ts';

export const showDecisionLink: LinkHandler<'showDecisionLink'> = async (call) => {
  const { approval } = await openLink(call);
  const status = statusNow(approval);
  return status === 'pending' ? pendingPage(approval) : decidedPage(status);
};

export const decideByLink: LinkHandler<'decideByLink'> = async (call) => {
  const { context, request, reply } = call;
  rejectOtherSites(request);
  const { approval, webhook } = await openLink(call);
  const approved = approvedIn(request.body);
  const reason = approved ? null : reasonIn(request.body);
  const { id, name } = webhook.createdBy;
  const outcome = await recordDecision(context.control, webhook.tenantId, {
    approvalId: approval.id,
    approved,
    always: false,
    reason,
    by: { type: 'key', id, name: `${name} (link)` },
  });
  if (outcome.kind === 'decided') return decidedPage(approved ? 'approved' : 'denied');
  if (outcome.kind === 'missing') throw notFound();
  if (outcome.kind === 'conflict') reply.code(409);
  return decidedPage(statusNow(outcome.approval));
};

interface Link {
  readonly approval: ApprovalRecord;
  readonly webhook: WebhookRecord;
}

/** Every invalid link is answered with the same 404. */
async function openLink({ context, request, reply, token }: LinkRequest): Promise<Link> {
  rejectForeignHost(request, context.config);
  const found = await findLink(context, token);
  if (found === undefined) {
    context.rates.failures.check(request.ip, reply);
    throw notFound();
  }
  reply.headers(pageHeaders);
  return found;
}

async function findLink(context: ServerContext, text: string): Promise<Link | undefined> {
  const token = readToken(text);
  if (token === undefined) return undefined;
  const webhook = await context.store.deliveries.find(token.webhookId);
  if (webhook === undefined || !webhook.mayDecide) return undefined;
  const store = context.store.tenant(webhook.tenantId);
  const approval = await store.readApproval(token.approvalId);
  if (approval === undefined || approval.kind !== 'permission') return undefined;
  if (!context.signer.isProof(token.proof, webhook, approval)) return undefined;
  const key = await store.readKey(webhook.createdBy.id);
  return isValidKey(key) ? { approval, webhook } : undefined;
}

/** The page sends no referrer and so no origin, but browsers send `Sec-Fetch-Site`. */
function rejectOtherSites({ headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return;
  throw new RelayError(
    'origin_not_allowed',
    'This decision must be submitted from the page of the link',
  );
}

function approvedIn(body: unknown): boolean {
  const values = body instanceof URLSearchParams ? body.getAll('approved') : [];
  const [value] = values;
  if (values.length === 1 && (value === 'true' || value === 'false')) return value === 'true';
  throw invalidField('approved', 'Must be true or false');
}

function reasonIn(body: unknown): string | null {
  const reason = body instanceof URLSearchParams ? (body.get('reason') ?? '').trim() : '';
  if (reason.length <= maxReasonChars) return reason === '' ? null : reason;
  throw invalidField('reason', `Must have at most ${maxReasonChars} characters`);
}
