/** What invocations need of a server, with one action: `act`. */
import { createHash } from 'node:crypto';
import {
  type Action,
  type Clock,
  defaultSettings,
  type InvocationEngine,
  InvocationRunner,
  type Log,
  systemClock,
  type SystemStore,
} from '@relay/core';
import { uuidv7 } from 'uuidv7';

export interface InvocationOptions {
  readonly handler: NonNullable<Action['handler']>;
  readonly idempotent?: boolean;
  readonly clock?: Clock;
}

export function invocationEngine(
  store: SystemStore,
  { handler, idempotent = false, clock = systemClock }: InvocationOptions,
): InvocationEngine & { readonly log: Log; readonly invocations: InvocationRunner } {
  const own: Action = {
    name: 'act',
    description: 'Does it',
    inputSchema: { type: 'object' },
    outputSchema: null,
    sessionId: null,
    url: null,
    availableTo: null,
    timeoutMs: null,
    idempotent,
    createdAt: 0,
    createdBy: { type: 'key', id: 'key-1', name: 'Ada' },
    handler,
  };
  const engine: ReturnType<typeof invocationEngine> = {
    store,
    clock,
    ids: { next: uuidv7 },
    digest: (text: string) => createHash('sha256').update(text).digest('hex'),
    settings: { ...defaultSettings, node: uuidv7() },
    log: { warn: () => undefined, error: () => undefined },
    invocations: new InvocationRunner({
      engine: () => engine,
      own: new Map([['act', own]]),
      call: () => Promise.reject(new Error('It has no URL')),
      isPaused: () => false,
    }),
  };
  return engine;
}
