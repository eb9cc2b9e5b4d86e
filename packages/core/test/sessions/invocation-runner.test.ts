import { RelayError } from '@relay/protocol';
import { expect, test, vi } from 'vitest';
import type { InvocationEngine } from '../../src/commands/sessions/end-invocation.ts';
import type { Log } from '../../src/ports/index.ts';
import { InvocationRunner } from '../../src/sessions/invocation-runner.ts';
import { ManualClock } from '../support/index.ts';

test('invocations that stay due, such as damaged ones, do not keep the others waiting', async () => {
  const ids = Array.from({ length: 250 }, (_, index) => String(index));
  const seen = new Set<string>();
  const actions = {
    readInvocation: async (id: string) => {
      seen.add(id);
      throw new RelayError('journal_corrupt', 'Damaged');
    },
  };
  const store = {
    sessions: {
      dueHandlers: async () => [],
      dueInvocations: async (_now: number, limit: number) =>
        ids.slice(0, limit).map((invocationId) => ({ tenantId: 't', invocationId })),
    },
    tenant: () => ({ actions }),
  };
  const engine = {
    store,
    clock: new ManualClock(),
    log: { warn: () => undefined },
    settings: {},
  };
  const runner = new InvocationRunner({
    engine: () => engine as unknown as InvocationEngine & { log: Log },
    own: new Map(),
    isPaused: () => false,
    call: async () => undefined,
  });
  runner.begin();
  await vi.waitFor(() => expect(seen.size).toBe(ids.length));
  await runner.stop();
});
