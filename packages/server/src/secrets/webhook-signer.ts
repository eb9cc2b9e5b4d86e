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

  /** In the form of Standard Webhooks: a prefix, and the key in base64. */
  secretOf(webhook: WebhookRef): string {
    return `whsec_${this.#keyOf(webhook).toString('base64')}`;
  }

  #keyOf({ tenantId, id }: WebhookRef): Buffer {
    return derive(this.#rootKey, JSON.stringify(['webhook', tenantId, id]));
  }

  /** `relay-signature`: an HMAC over the time and the exact body, which the receiver can verify. */
  sign(webhook: WebhookRef, body: string, at: number): string {
    const seconds = Math.floor(at / 1000);
    const mac = createHmac('sha256', this.secretOf(webhook)).update(`${seconds}.${body}`);
    return `t=${seconds},v1=${mac.digest('hex')}`;
  }

  /**
   * The headers of Standard Webhooks. The id is the same on every attempt. It has no dots, because a
   * dot separates what is signed.
   */
  standardHeaders(webhook: WebhookRef, message: SignedMessage): Record<string, string> {
    const id = message.id.replaceAll('.', '_');
    const seconds = Math.floor(message.at / 1000);
    const mac = createHmac('sha256', this.#keyOf(webhook));
    mac.update(`${id}.${seconds}.${message.body}`);
    return {
      'webhook-id': id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': `v1,${mac.digest('base64')}`,
    };
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

type WebhookRef = Pick<WebhookRecord, 'tenantId' | 'id'>;

interface SignedMessage {
  readonly id: string;
  readonly body: string;
  readonly at: number;
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
