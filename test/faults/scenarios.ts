import type { DecisionInput, Model, RunRef, SystemStore, Tool } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  type RecordingTool,
  text,
  toolCall,
} from '@relay/core/testing';
import type { Decider, EventType, StoredEvent } from '@relay/protocol';
import type { AskOptions, Kernel, KernelOptions } from '../support/kernel.ts';

export interface Scenario {
  readonly name: string;
  /** What has effects. */
  readonly tools: readonly RecordingTool[];
  /** What only sub-agents do. */
  readonly delegates?: readonly Tool[];
  readonly model: Model;
  readonly options?: Partial<KernelOptions>;
  readonly request?: AskOptions;
  /** What is there before. */
  readonly prepare?: (store: SystemStore) => Promise<void>;
  /** What must be the same in the end, besides the journal. */
  readonly leaves?: (store: SystemStore) => Promise<unknown>;
  /** Who approves, one after the other. Default: one person. */
  readonly approvers?: readonly Decider[];
  /** What the person who approves says besides. */
  readonly answer?: Partial<DecisionInput>;
  /** What else people do, again and again until the run ends, before they answer. */
  readonly acts?: (kernel: Kernel, run: RunRef, events: readonly StoredEvent[]) => Promise<void>;
  /** Instead of answering, they stop the run as soon as it waits. */
  readonly cancels?: boolean;
  /** What must happen in it, lest it shows nothing. */
  readonly shows?: EventType;
}

/** The scenarios of the crash matrix, fresh for each crash point. */
export const scenarios: Readonly<Record<string, () => Scenario>> = {
  plain: () => ({
    name: 'plain',
    tools: [],
    model: createScriptedModel([[text('One '), text('two '), text('three.'), finish()]]),
  }),

  'idempotent tool': () => ({
    name: 'idempotent tool',
    tools: [createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true })],
    model: createScriptedModel([
      [text('Let me look. '), toolCall('call_1', 'look', { at: 'it' }), finish()],
      [text('Seen.'), finish()],
    ]),
  }),

  'tool that must not run twice': () => ({
    name: 'tool that must not run twice',
    tools: [createRecordingTool({ name: 'pay', allowedByDefault: true })],
    model: createScriptedModel([
      [toolCall('call_1', 'pay', { amount: 7 }), finish()],
      [text('Paid.'), finish()],
    ]),
  }),

  'two parallel approvals': () => ({
    name: 'two parallel approvals',
    tools: [createRecordingTool({ name: 'pay' })],
    model: createScriptedModel([
      [
        text('Two payments. '),
        toolCall('call_1', 'pay', { amount: 1 }),
        toolCall('call_2', 'pay', { amount: 2 }),
        finish(),
      ],
      [text('Both done.'), finish()],
    ]),
  }),

  'client tool': () => ({
    name: 'client tool',
    tools: [createRecordingTool({ name: 'pay' })],
    model: createScriptedModel([
      [
        text('Let me ask. '),
        toolCall('call_1', 'lookup', { id: 1 }),
        toolCall('call_2', 'lookup', { id: 2 }),
        toolCall('call_3', 'pay', { amount: 2 }),
        finish(),
      ],
      [text('Known.'), finish()],
    ]),
    request: {
      tools: ['pay', 'lookup'],
      functions: [
        {
          name: 'lookup',
          inputSchema: { type: 'object', properties: { id: { type: 'integer' } } },
        },
      ],
    },
  }),

  'an approval with other arguments': () => ({
    name: 'an approval with other arguments',
    tools: [createRecordingTool({ name: 'pay', idempotent: true })],
    model: createScriptedModel([
      [toolCall('call_1', 'pay', { amount: 100 }), finish()],
      [text('Paid less.'), finish()],
    ]),
    answer: { input: { amount: 7 } },
  }),

  'two approvers': () => ({
    name: 'two approvers',
    tools: [createRecordingTool({ name: 'pay' })],
    model: createScriptedModel([
      [toolCall('call_1', 'pay', { amount: 9 }), finish()],
      [text('Both agreed.'), finish()],
    ]),
    prepare: demandTwoApprovers,
    approvers: ['ada', 'ben'].map((owner) => ({ type: 'key', id: owner, name: owner, owner })),
    leaves: async (store) => {
      const tenant = await tenantOf(store);
      const [approval] = (await tenant.listApprovals({ kind: 'permission' }, { limit: 9 })).items;
      const { status, votes } = approval ?? {};
      return { status, voters: votes?.votes.map(({ person }) => person) };
    },
  }),

  'a counted grant': () => ({
    name: 'a counted grant',
    tools: [createRecordingTool({ name: 'pay', idempotent: true })],
    model: createScriptedModel([
      [
        toolCall('call_1', 'pay', { amount: 1 }),
        toolCall('call_2', 'pay', { amount: 1 }),
        finish(),
      ],
      [toolCall('call_3', 'pay', { amount: 1 }), finish()],
      [text('Done.'), finish()],
    ]),
    answer: { always: true, terms: { uses: 1 } },
  }),

  'a question': () => ({
    name: 'a question',
    tools: [
      createRecordingTool({
        name: 'order',
        allowedByDefault: true,
        idempotent: true,
        execute: async (_input, context) => ({
          result: await context.ask({ prompt: 'Which size?', schema: { type: 'string' } }),
        }),
      }),
    ],
    model: createScriptedModel([
      [toolCall('call_1', 'order', { what: 'shirt' }), finish()],
      [text('Ordered.'), finish()],
    ]),
    answer: { input: 'M' },
  }),

  cancel: () => ({
    name: 'cancel',
    tools: [
      createRecordingTool({ name: 'pay' }),
      createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true }),
    ],
    model: createScriptedModel([
      [
        text('Both. '),
        toolCall('call_1', 'look', {}),
        toolCall('call_2', 'pay', { amount: 1 }),
        toolCall('call_3', 'lookup', { id: 1 }),
        finish(),
      ],
      [text('This text is discarded.'), finish()],
    ]),
    request: {
      tools: ['pay', 'look', 'lookup'],
      functions: [{ name: 'lookup', inputSchema: { type: 'object' } }],
    },
    cancels: true,
    shows: 'approval.closed',
  }),

  'two turns with an approval each': () => ({
    name: 'two turns with an approval each',
    tools: [
      createRecordingTool({ name: 'pay' }),
      createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true }),
    ],
    model: createScriptedModel([
      [toolCall('call_1', 'pay', { amount: 1 }), toolCall('call_2', 'look', {}), finish()],
      [text('Again. '), toolCall('call_3', 'pay', { amount: 2 }), finish()],
      [text('Done.'), finish()],
    ]),
  }),
};

export async function tenantOf(store: SystemStore) {
  const none = '01900000-0000-7000-a000-000000000001';
  const { id } = await store.ensureTenant({ id: none, name: 'test', at: 0 });
  return store.tenant(id);
}

/** The one run of the store. */
export async function runIn(store: SystemStore) {
  const tenant = await tenantOf(store);
  const { items } = await tenant.listRuns({}, { limit: 1 });
  return { tenant, runId: items[0]?.id ?? '' };
}

async function demandTwoApprovers(store: SystemStore): Promise<void> {
  const tenant = await tenantOf(store);
  const { tenantId } = tenant;
  for (const id of ['ada', 'ben']) {
    const scopes = ['read', 'approve'];
    const key = { id, tenantId, name: id, owner: id, role: null, scopes, groups: [], createdAt: 0 };
    const times = { expiresAt: null, revokedAt: null, lastUsedAt: null };
    await store.addKey(
      { ...key, ...times, kind: 'api' as const, parent: null, replaces: [], replacedBy: null },
      id,
    );
  }
  const rule = { tool: 'pay', quorum: 2, notRequester: false };
  const by = { type: 'system', id: 'relay', name: 'relay' } as const;
  await tenant.policies.put({
    id: 'two',
    agent: null,
    version: 1,
    rules: { allow: [], deny: [], ask: [], approvers: [rule] },
    at: 0,
    by,
  });
}
