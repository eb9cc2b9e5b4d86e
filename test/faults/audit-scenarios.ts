import type { AuditEntry, SystemStore } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { uuidv7 } from 'uuidv7';
import type { Scenario } from './scenarios.ts';

async function entriesIn(store: SystemStore): Promise<string[]> {
  const none = '01900000-0000-7000-a000-000000000001';
  const { id } = await store.ensureTenant({ id: none, name: 'test', at: 0 });
  const entries = await store.tenant(id).audit.unsealed(1_000);
  return entries.map(({ text: written }) => {
    const { action, who, what } = JSON.parse(written) as AuditEntry;
    return `${action} by ${who.type} of ${String(what['toolCallId'] ?? what['tool'] ?? '')}`;
  });
}

/** A scenario of the crash matrix in which every action has its audit entry, and every entry its action. */
export const auditScenarios: Readonly<Record<string, () => Scenario>> = {
  'an audit trail': () => ({
    name: 'an audit trail',
    tools: [
      createRecordingTool({ name: 'pay', idempotent: true }),
      createRecordingTool({ name: 'look', idempotent: true }),
    ],
    request: {
      permissions: {
        allowlist: [{ tool: 'look' }],
        denylist: [{ tool: 'look', params: { at: 'no' } }],
      },
    },
    model: createScriptedModel([
      [
        toolCall('call_1', 'pay', { amount: 1 }),
        toolCall('call_2', 'look', { at: 'it' }),
        toolCall('call_3', 'look', { at: 'no' }),
        finish(),
      ],
      [text('Done.'), finish()],
    ]),
    answer: { always: true },
    options: {
      audit: (_tenantId, entry) => ({
        id: uuidv7(),
        at: entry.at,
        action: entry.action,
        actor: entry.who.id,
        runId: null,
        text: JSON.stringify(entry),
        proof: '',
      }),
    },
    async leaves(store) {
      return (await entriesIn(store)).toSorted();
    },
    shows: 'tool.denied',
  }),
};
