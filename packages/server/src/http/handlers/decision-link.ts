/**
 * `/decide/:token`: one request to a person, decided by whoever holds its link.
 *
 * The token is all the right there is: it names one approval as it was raised, and only Relay can make
 * one. It ends with the approval, by its one decision or its expiry, and with the key that made the
 * webhook. A GET shows; only a POST that does not come from another site decides.
 */
import { answerApproval, type ApprovalRecord, type WebhookRecord } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import { refuseForeignHost } from '../auth.ts';
import type { ServerContext } from '../context.ts';
import { notFound } from '../errors.ts';
import { answeredPage, askingPage, longestReason, pageHeaders } from '../views/decision-page.ts';
import { readToken } from '../../secrets/webhook-signer.ts';
import { statusNow } from './approvals.ts';
import type { LinkCall, LinkHandler } from './handler.ts';

export const showDecisionLink: LinkHandler<'showDecisionLink'> = async (call) => {
  const { approval } = await linked(call);
  const status = statusNow(approval);
  return status === 'pending' ? askingPage(approval) : answeredPage(status);
};

export const decideByLink: LinkHandler<'decideByLink'> = async (call) => {
  const { context, request, reply } = call;
  refuseOtherSites(request);
  const { approval, webhook } = await linked(call);
  const approved = answerIn(request.body);
  const reason = approved ? null : reasonIn(request.body);
  const { id, name } = webhook.createdBy;
  const outcome = await answerApproval(context.control, webhook.tenantId, {
    approvalId: approval.id,
    approved,
    always: false,
    reason,
    by: { type: 'key', id, name: `${name} (link)` },
  });
  if (outcome.kind === 'decided') return answeredPage(approved ? 'approved' : 'denied');
  if (outcome.kind === 'missing') throw notFound();
  if (outcome.kind === 'contradicted') reply.code(409);
  return answeredPage(statusNow(outcome.approval));
};

interface Linked {
  readonly approval: ApprovalRecord;
  readonly webhook: WebhookRecord;
}

/** Whatever is wrong with a link, it looks like one that never was. */
async function linked({ context, request, reply, token }: LinkCall): Promise<Linked> {
  refuseForeignHost(request, context.config);
  const found = await findLinked(context, token);
  if (found === undefined) {
    context.rates.failures.check(request.ip, reply);
    throw notFound();
  }
  reply.headers(pageHeaders);
  return found;
}

async function findLinked(context: ServerContext, text: string): Promise<Linked | undefined> {
  const token = readToken(text);
  if (token === undefined) return undefined;
  const webhook = await context.store.deliveries.find(token.webhookId);
  if (webhook === undefined || !webhook.mayDecide) return undefined;
  const store = context.store.tenant(webhook.tenantId);
  const approval = await store.readApproval(token.approvalId);
  if (approval === undefined || approval.kind !== 'permission') return undefined;
  if (!context.signer.isProof(token.proof, webhook, approval)) return undefined;
  const key = await store.readKey(webhook.createdBy.id);
  const isGone = key === undefined || key.revokedAt !== null || isOver(key.expiresAt);
  return isGone ? undefined : { approval, webhook };
}

function isOver(expiresAt: number | null): boolean {
  return expiresAt !== null && expiresAt <= Date.now();
}

/** A page that sends no referrer sends no origin either; the browser says from where all the same. */
function refuseOtherSites({ headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return;
  throw new RelayError('origin_not_allowed', 'Pages of another origin may not decide here');
}

function answerIn(body: unknown): boolean {
  const approved = body instanceof URLSearchParams ? body.getAll('approved') : [];
  const [only] = approved;
  if (approved.length === 1 && (only === 'true' || only === 'false')) return only === 'true';
  throw new RelayError('invalid_request', 'approved: must be true or false', {
    details: [{ path: 'approved', message: 'Must be true or false' }],
  });
}

/** A field that was left empty is no reason. */
function reasonIn(body: unknown): string | null {
  const reason = body instanceof URLSearchParams ? (body.get('reason') ?? '').trim() : '';
  if (reason.length <= longestReason) return reason === '' ? null : reason;
  throw new RelayError('invalid_request', `reason: at most ${longestReason} characters`, {
    details: [{ path: 'reason', message: `At most ${longestReason} characters` }],
  });
}
