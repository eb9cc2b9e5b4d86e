import type { SystemStore } from '@relay/core';
import { createScriptedModel, finish, text, toolCall } from '@relay/core/testing';
import { textOf } from '@relay/protocol';
import { memoryTool } from '@relay/tools';
import type { Scenario } from './scenarios.ts';

const namespace = 'user:42';

async function tenantOf(store: SystemStore) {
  const none = '01900000-0000-7000-a000-000000000001';
  const { id } = await store.ensureTenant({ id: none, name: 'test', at: 0 });
  return store.tenant(id);
}

/** Scenarios of the crash matrix in which runs recall and remember. */
export const memoryScenarios: Readonly<Record<string, () => Scenario>> = {
  'recalling, remembering and leaving a memory': () => ({
    name: 'recalling, remembering and leaving a memory',
    tools: [],
    delegates: [memoryTool],
    request: {
      memory: { namespace },
      messages: [{ role: 'user', content: 'When does the shop open?' }],
    },
    model: createScriptedModel([
      [
        text('Let me note that. '),
        toolCall('call_1', 'memory', { action: 'remember', text: 'The shop was asked about' }),
        finish(),
      ],
      // What it says rests on what was recalled: other notes would be another answer.
      ({ messages }) => [text(`I read: ${textOf(messages[0]?.content ?? '')}`), finish()],
    ]),
    async prepare(store) {
      const tenant = await tenantOf(store);
      await tenant.addMemory({
        id: '01900000-0000-7000-a000-000000000002',
        namespace,
        text: 'The shop opens at nine',
        runId: null,
        source: 'api',
        createdAt: 1,
        expiresAt: null,
      });
    },
    async leaves(store) {
      const tenant = await tenantOf(store);
      const memories = await tenant.listMemories({ namespace, now: 1 }, { limit: 100 });
      return memories
        .map(({ source, text: said }) => `${source}: ${said}`)
        .toSorted((a, b) => (a < b ? -1 : 1));
    },
    shows: 'memory.stored',
  }),
};
