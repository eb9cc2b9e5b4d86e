import type { ToolContext } from '@relay/core';

/** What a tool gets, for tests that call one without a run. */
export function createToolContext(more: Partial<ToolContext> = {}): ToolContext {
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
    ask: () => Promise.reject(new Error('There is no run to ask a person in')),
    ...more,
  };
}
