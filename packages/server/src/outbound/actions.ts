/** Calls the URLs of actions: signed as webhooks are, to the addresses that the tenant may use. */
import { type Action, ActionFailed, type Clock, type UrlCall } from '@relay/core';
import type { GuardedFetch } from '@relay/models';
import type { WebhookSigner } from '../secrets/webhook-signer.ts';

export interface ActionCallerOptions {
  readonly signer: WebhookSigner;
  readonly fetchFor: (tenantId: string) => GuardedFetch;
  readonly clock: Clock;
}

/** Whose secret signs its calls. An action that is registered again has another one. */
export function signedAs(
  tenantId: string,
  { name, createdAt }: Pick<Action, 'name' | 'createdAt'>,
) {
  return { tenantId, id: `action ${name} ${createdAt}` };
}

const maxResponseBytes = 1024 * 1024;

export function createActionCaller({ signer, fetchFor, clock }: ActionCallerOptions) {
  return async ({ tenantId, action, invocation, input, signal }: UrlCall): Promise<unknown> => {
    const { id, action: name, by } = invocation;
    const body = JSON.stringify({ invocationId: id, action: name, input, by });
    const at = clock.now();
    const as = signedAs(tenantId, action);
    const response = await fetchFor(tenantId)(action.url, {
      method: 'POST',
      body,
      signal,
      headers: {
        'content-type': 'application/json',
        'user-agent': 'relay',
        'relay-event': 'action.invoked',
        'relay-delivery': id,
        'idempotency-key': id,
        'relay-signature': signer.sign(as, body, at),
        ...signer.standardHeaders(as, { id, body, at }),
      },
    });
    const text = await readText(response);
    const { status } = response;
    if (status < 200 || status > 299) {
      // Redirects are not followed.
      const retryable = status === 429 || status >= 500;
      throw new ActionFailed(`The URL of the action answered ${status}`, { retryable });
    }
    try {
      return text === '' ? null : (JSON.parse(text) as unknown);
    } catch {
      throw new ActionFailed('The URL of the action answered with a body that is not JSON');
    }
  };
}

async function readText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.byteLength;
    // Leaving the loop closes the connection.
    if (size > maxResponseBytes) {
      throw new ActionFailed(
        `The URL of the action answered with more than ${maxResponseBytes} bytes`,
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
