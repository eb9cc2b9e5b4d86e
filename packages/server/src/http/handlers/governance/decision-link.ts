/**
 * `/decide/:token`: one approval, decided by the holder of its link.
 *
 * The token is the only credential: it is signed by Relay and names one approval as it was requested.
 * It is valid until the approval is decided or expires, and as long as the key that created the webhook
 * is. A GET shows the approval; only a POST that does not come from another site decides it.
 */
import {
  isValidKey,
  type ApprovalRecord,
  type DecisionInput,
  demandsApprovers,
  describeApprovers,
  recordDecision,
  type WebhookRecord,
} from '@relay/core';
import { outcomeAnswers, RelayError } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import { rejectForeignHost } from '../../auth.ts';
import { invalidField, notFound } from '../../errors.ts';
import { decidedPage, maxTextChars, pageHeaders, pendingPage } from '../../views/decision-page.ts';
import { readToken } from '../../../secrets/webhook-signer.ts';
import { asShown, Requirements, statusNow, storedAnswerOf } from './approvals.ts';
import type { LinkRequest, LinkHandler, ServerContext } from '../handler.ts';

export const showDecisionLink: LinkHandler<'showDecisionLink'> = async (call) => {
  const { approval, webhook } = await openLink(call);
  if (statusNow(approval) !== 'pending') return pageOfDecided(approval);
  const { tenantId, createdBy: actor } = webhook;
  const { context } = call;
  const caller = { tenantId, actor, scopes: new Set<string>(), groups: [] };
  const requirement = await new Requirements({ context, caller }).of(approval);
  return pendingPage(
    asShown(approval),
    demandsApprovers(requirement) ? requirement.rules.map(describeApprovers) : [],
  );
};

export const decideByLink: LinkHandler<'decideByLink'> = async (call) => {
  const { context, request, reply } = call;
  rejectOtherSites(request);
  const { approval, webhook } = await openLink(call);
  const answer = answerIn(request.body);
  const { createdBy } = webhook;
  const outcome = await recordDecision(context.control, webhook.tenantId, {
    approvalId: approval.id,
    ...answer,
    always: false,
    byLink: true,
    by: { ...createdBy, name: `${createdBy.name} (link)` },
  });
  if (outcome.kind === 'decided') {
    return decidedPage(answer.approved === true ? 'approved' : 'denied', answer.outcome);
  }
  if (outcome.kind === 'missing') throw notFound();
  if (outcome.kind === 'conflict') reply.code(409);
  return pageOfDecided(outcome.approval);
};

function pageOfDecided(approval: ApprovalRecord): string {
  return decidedPage(statusNow(approval), storedAnswerOf(approval).outcome);
}

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
  if (approval === undefined || approval.kind === 'question') return undefined;
  if (!context.signer.isProof(token.proof, webhook, approval)) return undefined;
  const key = await store.readKey(webhook.createdBy.id);
  return isValidKey(key, Date.now()) ? { approval, webhook } : undefined;
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

type Answer = Pick<DecisionInput, 'approved' | 'outcome' | 'output' | 'reason'>;

/** The fields of a submitted form: `outcome`, or `approved`. */
function answerIn(body: unknown): Answer {
  const form = body instanceof URLSearchParams ? body : new URLSearchParams();
  const [approved, ...otherApproved] = form.getAll('approved');
  const [given, ...otherGiven] = form.getAll('outcome');
  const isOne = (approved === undefined) !== (given === undefined);
  if (!isOne || otherApproved.length > 0 || otherGiven.length > 0) {
    throw invalidField('approved', 'Must be true or false, unless there is one outcome');
  }
  if (given === undefined) {
    if (approved !== 'true' && approved !== 'false') {
      throw invalidField('approved', 'Must be true or false');
    }
    const isApproved = approved === 'true';
    return { approved: isApproved, reason: isApproved ? null : reasonIn(form) };
  }
  const outcome = outcomeAnswers.find((answer) => answer === given);
  if (outcome === undefined) {
    throw invalidField('outcome', `Must be one of ${outcomeAnswers.join(', ')}`);
  }
  if (outcome === 'completed') return { outcome, output: outputIn(form), reason: null };
  return { outcome, reason: outcome === 'failed' ? reasonIn(form) : null };
}

function reasonIn(form: URLSearchParams): string | null {
  const reason = textIn(form, 'reason');
  return reason === '' ? null : reason;
}

/** A person may type JSON or plain text. */
function outputIn(form: URLSearchParams): unknown {
  const text = textIn(form, 'output');
  if (text === '') return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function textIn(form: URLSearchParams, field: string): string {
  const text = (form.get(field) ?? '').trim();
  if (text.length <= maxTextChars) return text;
  throw invalidField(field, `Must have at most ${maxTextChars} characters`);
}
