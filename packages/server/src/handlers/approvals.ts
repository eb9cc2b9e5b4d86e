/** `/v1/approvals`: requests to people, independent of the surface that their run came in by. */
import { answerRelay, type RelayRecord } from '@relay/core';
import { type approvalBodySchema, RelayError } from '@relay/protocol';
import type { z } from 'zod';
import { nothingHere } from '../failures.ts';
import type { Call, Handler } from './handler.ts';

export const getApproval: Handler = async (call) => presentApproval(await findRelay(call));

export const decideApproval: Handler = async (call) => {
  const { approved, always, reason, output } = call.body as z.infer<typeof approvalBodySchema>;
  const relay = await findRelay(call);
  if (output !== undefined && relay.kind !== 'outcome') {
    throw new RelayError('invalid_request', 'output: answers a relay of kind outcome alone', {
      details: [{ path: 'output', message: 'Answers a relay of kind outcome alone' }],
    });
  }
  const outcome = await answerRelay(call.context.control, call.caller.tenantId, {
    relayId: relay.id,
    approved,
    always: always ?? false,
    reason: reason ?? null,
    ...(output === undefined ? {} : { output }),
    by: call.caller.as,
  });
  if (outcome.kind === 'contradicted') {
    throw new RelayError(
      'relay_conflict',
      `This request is already ${presentApproval(outcome.relay).status}`,
    );
  }
  return presentApproval(await findRelay(call));
};

async function findRelay(call: Call): Promise<RelayRecord> {
  const { id } = call.params as { id: string };
  const relay = await call.context.store.tenant(call.caller.tenantId).readRelay(id);
  if (relay === undefined) throw nothingHere();
  return relay;
}

/** Nobody can answer it any more, although its run has not been told yet. */
function isOverdue({ status, expiresAt }: RelayRecord): boolean {
  return status === 'pending' && expiresAt <= Date.now();
}

function presentApproval(relay: RelayRecord) {
  const status = isOverdue(relay) ? 'expired' : relay.status;
  const { raisedAt, expiresAt, decidedAt, decidedBy, reason, answer: _, ...rest } = relay;
  return {
    ...rest,
    status,
    raisedAt: new Date(raisedAt).toISOString(),
    expiresAt: new Date(expiresAt).toISOString(),
    ...(decidedAt === null ? {} : { decidedAt: new Date(decidedAt).toISOString() }),
    ...(decidedBy === null ? {} : { decidedBy }),
    ...(reason === null ? {} : { reason }),
  };
}
