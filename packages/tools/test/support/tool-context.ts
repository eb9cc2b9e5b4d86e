import type { ToolContext } from '@relay/core';

interface Replaced extends Partial<Omit<ToolContext, 'ask'>> {
  /** Its answer fits the question. */
  readonly ask?: (question: unknown) => Promise<unknown>;
}

/** What a tool gets, for tests that call one without a run. */
export function createToolContext({ ask, ...more }: Replaced = {}): ToolContext {
  return {
    signal: new AbortController().signal,
    tenantId: 'tenant',
    runId: 'run',
    agentId: 'agent',
    toolCallId: 'call_1',
    idempotencyKey: 'run:call_1',
    allowedBy: 'person',
    context: {},
    progress: () => undefined,
    spawn: () => Promise.reject(new Error('There is no run to spawn an agent in')),
    ask: (ask ??
      (() =>
        Promise.reject(new Error('There is no run to ask a person in')))) as ToolContext['ask'],
    ...more,
  };
}
