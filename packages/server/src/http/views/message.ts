import type { DeliveryError, MessageDelivery, MessageRecord } from '@relay/core';
import { iso, isoOrUndefined } from './pagination.ts';

export function presentMessage(message: MessageRecord, deliveries: readonly MessageDelivery[]) {
  const { id, from, to, text, attachments, mode, replyTo, at, editedAt, withdrawnAt } = message;
  const [only] = to;
  return {
    id,
    from,
    to: only !== undefined && to.length === 1 ? only : [...to],
    text,
    attachments: [...attachments],
    mode: mode ?? modeOf(deliveries),
    replyTo: replyTo ?? undefined,
    at: iso(at),
    editedAt: isoOrUndefined(editedAt),
    withdrawnAt: isoOrUndefined(withdrawnAt),
    deliveries: deliveries.map(presentRecipient),
  };
}

/** The default of all recipients. */
function modeOf(deliveries: readonly MessageDelivery[]) {
  const modes = new Set(deliveries.map(({ mode }) => mode));
  const [only] = modes;
  return modes.size === 1 ? only : undefined;
}

function presentRecipient(delivery: MessageDelivery) {
  const { id, sessionId, handle, status } = delivery;
  return { id, sessionId, handle, status, error: errorOf(delivery) };
}

export function presentDelivery(delivery: MessageDelivery) {
  const { messageId, mode, attempts, status, reason, inferred } = delivery;
  const { at, availableAt, deliveredAt, consumedAt, finalAt } = delivery;
  const isDeferred = status === 'deferred';
  return {
    ...presentRecipient(delivery),
    messageId,
    mode,
    attempts,
    reason: isDeferred ? (reason ?? undefined) : undefined,
    availableAt: isDeferred ? isoOrUndefined(availableAt) : undefined,
    acceptedAt: iso(at),
    deliveredAt: isoOrUndefined(deliveredAt),
    consumedAt: isoOrUndefined(consumedAt),
    failedAt: status === 'failed' ? isoOrUndefined(finalAt) : undefined,
    fidelity: inferred ? ('inferred' as const) : undefined,
  };
}

const texts: Readonly<Record<string, string>> = {
  expired: 'The session was offline for too long',
  withdrawn: 'The message was withdrawn',
  released: 'The session was released',
  session_failed: 'The session has failed',
};

function errorOf({ status, reason, error, retryable }: MessageDelivery) {
  if (status !== 'failed') return undefined;
  // Only a delivery that was never accepted has an error of its own.
  if (error !== null) return error as DeliveryError;
  const code = reason ?? 'failed';
  return { code, message: texts[code] ?? code, retryable: retryable ? true : undefined };
}
