/**
 * Signs webhook deliveries and decision links. The secrets derive from the root key: they are not
 * stored, and a rotation of the master key does not change them.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ApprovalRecord, WebhookRecord } from '@relay/core';
import { idSchema } from '@relay/protocol';
import { derive } from './master-key.ts';

export class WebhookSigner {
  readonly #rootKey: Buffer;
  readonly #linkKey: Buffer;

  constructor(rootKey: Buffer) {
    this.#rootKey = rootKey;
    this.#linkKey = derive(rootKey, 'links');
  }

  secretOf({ tenantId, id }: Pick<WebhookRecord, 'tenantId' | 'id'>): string {
    const key = derive(this.#rootKey, JSON.stringify(['webhook', tenantId, id]));
    return `whsec_${key.toString('base64url')}`;
  }

  /** `relay-signature`: an HMAC over the time and the exact body, which the receiver can verify. */
  sign(webhook: WebhookRecord, body: string, at: number): string {
    const seconds = Math.floor(at / 1000);
    const mac = createHmac('sha256', this.secretOf(webhook)).update(`${seconds}.${body}`);
    return `t=${seconds},v1=${mac.digest('hex')}`;
  }

  /** Valid for one approval, exactly as it was requested. */
  tokenFor(webhook: WebhookRecord, approval: LinkedApproval): string {
    return `${approval.id}.${webhook.id}.${this.#proof(webhook, approval).toString('base64url')}`;
  }

  isProof(proof: string, webhook: WebhookRecord, approval: LinkedApproval): boolean {
    const expected = this.#proof(webhook, approval);
    const actual = Buffer.from(proof, 'base64url');
    return actual.byteLength === expected.byteLength && timingSafeEqual(actual, expected);
  }

  #proof({ tenantId, id }: WebhookRecord, approval: LinkedApproval): Buffer {
    const parts = [tenantId, id, approval.id, approval.digest, approval.expiresAt];
    return createHmac('sha256', this.#linkKey).update(JSON.stringify(parts)).digest();
  }
}

export type LinkedApproval = Pick<ApprovalRecord, 'id' | 'digest' | 'expiresAt'>;

export interface Token {
  readonly approvalId: string;
  readonly webhookId: string;
  readonly proof: string;
}

export function readToken(text: string): Token | undefined {
  const [approvalId, webhookId, proof, ...rest] = text.split('.');
  if (proof === undefined || rest.length > 0) return undefined;
  const areIds = [approvalId, webhookId].every((id) => idSchema.safeParse(id).success);
  return areIds ? { approvalId: approvalId ?? '', webhookId: webhookId ?? '', proof } : undefined;
}
