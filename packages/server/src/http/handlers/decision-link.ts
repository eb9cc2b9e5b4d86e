/**
 * `/decide/:token`: one request to a person, decided by whoever holds its link.
 *
 * The token is all the right there is: it names one relay as it was raised, and only Relay can make
 * one. It ends with the relay, by its one decision or its expiry, and with the key that made the
 * webhook. A GET shows; only a POST that does not come from another site decides.
 */
import { answerRelay, type RelayRecord, type WebhookRecord } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { refuseForeignHost } from '../auth.ts';
import type { ServerContext } from '../context.ts';
import { nothingHere } from '../errors.ts';
import { answeredPage, askingPage, longestReason, pageHeaders } from '../views/decision-page.ts';
import { readToken } from '../../webhooks/signer.ts';
import { statusNow } from './approvals.ts';

export type LinkHandler = (
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<string>;

export const showDecisionLink: LinkHandler = async (context, request, reply) => {
  const { relay } = await linked(context, request, reply);
  const status = statusNow(relay);
  return status === 'pending' ? askingPage(relay) : answeredPage(status);
};

export const decideByLink: LinkHandler = async (context, request, reply) => {
  refuseOtherSites(request);
  const { relay, webhook } = await linked(context, request, reply);
  const approved = answerIn(request.body);
  const reason = approved ? null : reasonIn(request.body);
  const { id, name } = webhook.createdBy;
  const outcome = await answerRelay(context.control, webhook.tenantId, {
    relayId: relay.id,
    approved,
    always: false,
    reason,
    by: { type: 'key', id, name: `${name} (link)` },
  });
  if (outcome.kind === 'decided') return answeredPage(approved ? 'approved' : 'denied');
  if (outcome.kind === 'missing') throw nothingHere();
  if (outcome.kind === 'contradicted') reply.code(409);
  return answeredPage(statusNow(outcome.relay));
};

interface Linked {
  readonly relay: RelayRecord;
  readonly webhook: WebhookRecord;
}

/** Whatever is wrong with a link, it looks like one that never was. */
async function linked(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Linked> {
  refuseForeignHost(request, context.config);
  const found = await findLinked(context, (request.params as { token: string }).token);
  if (found === undefined) {
    context.rates.failures.check(request.ip, reply);
    throw nothingHere();
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
  const relay = await store.readRelay(token.relayId);
  if (relay === undefined || relay.kind !== 'permission') return undefined;
  if (!context.signer.isProof(token.proof, webhook, relay)) return undefined;
  const key = await store.readKey(webhook.createdBy.id);
  const isGone = key === undefined || key.revokedAt !== null || isOver(key.expiresAt);
  return isGone ? undefined : { relay, webhook };
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
