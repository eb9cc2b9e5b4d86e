/** A harness whose agent notes what it receives, and gives its receipts later. */
import { appendFileSync } from 'node:fs';
import type { Harness, HarnessContext, HarnessSession } from '@relay/harnesses';
import { defineConfig, defineHarness } from '@relay/server';

const file = process.env['HARNESS_NOTES'] ?? '';

function sessionOf(handle: string, context: HarnessContext): HarnessSession {
  return {
    identity: { handle, name: 'Echo', kind: 'agent' },
    capabilities: {
      messaging: { receive: true },
      delivery: { modes: ['on-idle'], queue: true },
      events: { emits: ['status.changed'] },
      lifecycle: { release: true },
    },
    receiveMessage: ({ deliveryId, text, redelivered }) => {
      appendFileSync(file, `${JSON.stringify({ text, redelivered })}\n`);
      setTimeout(() => {
        // The server may be stopping.
        context.receipt(deliveryId, { status: 'consumed' }).catch(() => undefined);
      }, 5);
      return Promise.resolve({ status: 'delivered' });
    },
    onEvent: () => () => undefined,
    release: () => Promise.resolve(),
  };
}

const echo: Harness = {
  name: 'echo',
  create: ({ handle }, context) => Promise.resolve(sessionOf(handle, context)),
  attach: ({ handle }, context) => Promise.resolve(sessionOf(handle, context)),
};

export default defineConfig({ harnesses: [defineHarness(echo)] });
