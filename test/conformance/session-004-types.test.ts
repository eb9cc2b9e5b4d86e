/** 004: the types of sessions, as the schemas that requests and harnesses are validated with. */
import {
  type AgentSessionCapabilities,
  type AgentSessionEvent,
  type AgentSessionEventType,
  agentSessionEventTypes,
  type AgentStatus,
  agentStatuses,
  capabilitiesSchema,
  type DeliveryMode,
  deliveryModes,
  identitySchema,
  sessionEventSchema,
  type TranscriptChunk,
  transcriptChunkSchema,
} from '@relay/protocol';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { verifies } from './verifies.ts';

/** As the specification writes them; it leaves the values of `DeliveryMode` open. */
namespace Specified {
  export type AgentSessionCapabilities = {
    messaging: {
      receive: true;
      send?: boolean;
      attachments?: Array<'text' | 'image'>;
    };
    delivery: {
      modes: DeliveryMode[];
      queue?: boolean;
    };
    events: {
      emits: AgentSessionEventType[];
    };
    actions?: {
      invoke?: boolean;
      expose?: boolean;
    };
    lifecycle: {
      release: boolean;
      pause?: boolean;
      resume?: boolean;
      fork?: boolean;
      snapshot?: boolean;
    };
  };

  export type AgentStatus =
    | 'starting'
    | 'active'
    | 'idle'
    | 'waiting'
    | 'blocked'
    | 'paused'
    | 'releasing'
    | 'released'
    | 'offline'
    | 'failed';

  export type AgentSessionEventType =
    | 'status.changed'
    | 'status.idle'
    | 'status.active'
    | 'status.blocked'
    | 'status.waiting'
    | 'status.offline'
    | 'tool.called'
    | 'tool.completed'
    | 'tool.failed'
    | 'tool.output'
    | 'message.received'
    | 'message.sent'
    | 'delivery.accepted'
    | 'delivery.delivered'
    | 'delivery.deferred'
    | 'delivery.failed'
    | 'action.invoked'
    | 'action.completed'
    | 'action.failed'
    | 'action.denied'
    | 'transcript.chunk'
    | 'file.changed'
    | 'command.started'
    | 'command.completed'
    | 'command.failed'
    | 'terminal.output'
    | 'terminal.screen'
    | 'usage.updated'
    | 'session.started'
    | 'session.released'
    | 'session.resumed'
    | 'session.forked'
    | 'log'
    | 'error';

  export type TranscriptChunk = {
    id: string;
    at: Date;
    role: 'agent' | 'user' | 'system' | 'tool';
    content: string;
    sequence: number;
    metadata?: Record<string, unknown>;
  };

  export type AgentSessionEvent =
    | { type: 'status.changed'; status: AgentStatus; previousStatus?: AgentStatus; reason?: string }
    | { type: 'tool.called'; run?: string; tool: string; input?: unknown }
    | { type: 'tool.completed'; run?: string; tool: string; output?: unknown; durationMs?: number }
    | { type: 'tool.failed'; run?: string; tool: string; error: string; retryable?: boolean }
    | { type: 'tool.output'; run?: string; tool: string; output: string }
    | { type: 'message.received'; messageId: string; deliveryId?: string }
    | { type: 'message.sent'; messageId: string }
    | { type: 'delivery.accepted'; deliveryId: string; messageId: string }
    | { type: 'delivery.delivered'; deliveryId: string; messageId: string }
    | {
        type: 'delivery.deferred';
        deliveryId: string;
        messageId: string;
        availableAt: Date | string;
        reason?: string;
      }
    | {
        type: 'delivery.failed';
        deliveryId: string;
        messageId: string;
        reason: string;
        retryable?: boolean;
      }
    | { type: 'action.invoked'; action: string; invocationId: string }
    | { type: 'action.completed'; action: string; invocationId: string; durationMs?: number }
    | {
        type: 'action.failed';
        action: string;
        invocationId: string;
        error: string;
        retryable?: boolean;
      }
    | { type: 'action.denied'; action: string; invocationId: string; reason: string }
    | { type: 'transcript.chunk'; chunk: TranscriptChunk }
    | {
        type: 'file.changed';
        path: string;
        operation: 'create' | 'update' | 'delete';
        diff?: string;
      }
    | { type: 'command.started'; command: string; cwd?: string }
    | { type: 'command.completed'; command: string; exitCode?: number; durationMs?: number }
    | { type: 'command.failed'; command: string; error: string; exitCode?: number }
    | { type: 'terminal.output'; stream?: 'stdout' | 'stderr' | 'combined'; text: string }
    | { type: 'terminal.screen'; text: string; rows?: number; cols?: number }
    | {
        type: 'usage.updated';
        tokens?: number;
        costUsd?: number;
        metadata?: Record<string, unknown>;
      }
    | { type: 'session.started'; sessionId: string }
    | { type: 'session.released'; sessionId: string; reason?: string }
    | { type: 'session.resumed'; sessionId: string }
    | { type: 'session.forked'; sessionId: string; parentSessionId: string }
    | { type: 'log'; level: 'debug' | 'info' | 'warn' | 'error'; message: string }
    | { type: 'error'; error: string; code?: string; retryable?: boolean };
}

/** Without `fidelity` and without the `undefined` that zod adds to optional properties. */
type Plain<Value> = unknown extends Value
  ? unknown
  : Value extends Date | string | number | boolean
    ? Value
    : Value extends readonly (infer Item)[]
      ? Plain<Item>[]
      : { [Key in keyof Value as Exclude<Key, 'fidelity'>]: Plain<Exclude<Value[Key], undefined>> };

/** JSON has no dates: a chunk has a string once it was stored. */
type WithTimes<Value> = Value extends { chunk: unknown }
  ? Omit<Value, 'chunk'> & { chunk: WithTimes<Value['chunk']> }
  : Value extends { at: Date }
    ? Omit<Value, 'at'> & { at: Date | string }
    : Value;

/** Assignable both ways: `toEqualTypeOf` takes an intersection for another type than the object that it is. */
type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : false) : false;

type OfType<Event, Type> = Extract<Event, { type: Type }>;

const minimum: AgentSessionCapabilities = {
  messaging: { receive: true },
  delivery: { modes: ['immediate'] },
  events: { emits: ['status.changed'] },
  lifecycle: { release: false },
};

const full: AgentSessionCapabilities = {
  messaging: { receive: true, send: true, attachments: ['text', 'image'] },
  delivery: { modes: ['immediate', 'next-tool-call', 'on-idle'], queue: true },
  events: {
    emits: [
      'status.changed',
      'tool.called',
      'tool.completed',
      'transcript.chunk',
      'file.changed',
      'terminal.output',
    ],
  },
  actions: { invoke: true, expose: true },
  lifecycle: { release: true, pause: true, resume: true, fork: true, snapshot: true },
};

function accepts(capabilities: unknown): boolean {
  return capabilitiesSchema.safeParse(capabilities).success;
}

/** The full capabilities with one value replaced or, if it is undefined, removed. */
function changed(path: string, value: unknown): unknown {
  const copy = structuredClone(full) as Record<string, unknown>;
  const [group = '', name] = path.split('.');
  const parent = name === undefined ? copy : (copy[group] as Record<string, unknown>);
  if (value === undefined) delete parent[name ?? group];
  else parent[name ?? group] = value;
  return copy;
}

describe('AgentSessionCapabilities', () => {
  test('is the exported type of the specification', () => {
    verifies('004:shape:type-exported');
    expectTypeOf<
      Plain<AgentSessionCapabilities>
    >().toEqualTypeOf<Specified.AgentSessionCapabilities>();
    expect(capabilitiesSchema.parse(full)).toStrictEqual(full);
    expect(capabilitiesSchema.parse(minimum)).toStrictEqual(minimum);
  });

  test.each([
    'messaging.receive',
    'delivery.modes',
    'events.emits',
    'lifecycle.release',
    'messaging',
    'delivery',
    'events',
    'lifecycle',
  ])('requires %s', (path) => {
    expect(accepts(changed(path, undefined))).toBe(false);
  });

  test.each([
    'messaging.send',
    'delivery.queue',
    'actions.invoke',
    'actions.expose',
    'lifecycle.release',
    'lifecycle.pause',
    'lifecycle.resume',
    'lifecycle.fork',
    'lifecycle.snapshot',
  ])('has a boolean for %s', (path) => {
    for (const value of [true, false]) expect(accepts(changed(path, value))).toBe(true);
    for (const value of ['yes', 1, null, []]) expect(accepts(changed(path, value))).toBe(false);
  });

  test('has only true for messaging.receive', () => {
    verifies('004:shape:messaging-receive');
    expect(accepts(full)).toBe(true);
    for (const value of [false, 'true', undefined]) {
      expect(accepts(changed('messaging.receive', value))).toBe(false);
    }
  });

  test('may leave out what is optional, and refuses what is not a boolean', () => {
    verifies(
      '004:shape:messaging-send',
      '004:shape:delivery-queue',
      '004:shape:actions-optional',
      '004:shape:actions-invoke',
      '004:shape:actions-expose',
      '004:shape:lifecycle-release',
      '004:shape:lifecycle-optional',
      '004:lifecycle:optional',
    );
    const booleans = ['messaging.send', 'delivery.queue', 'actions.invoke', 'actions.expose'];
    const lifecycle = ['pause', 'resume', 'fork', 'snapshot'].map((name) => `lifecycle.${name}`);
    for (const path of [...booleans, ...lifecycle]) {
      expect(accepts(changed(path, undefined)), path).toBe(true);
      expect(accepts(changed(path, 'yes')), path).toBe(false);
    }
    expect(accepts(changed('actions', undefined))).toBe(true);
    expect(accepts(changed('actions', {}))).toBe(true);
    expect(accepts(changed('lifecycle', { release: false }))).toBe(true);
    expect(accepts(changed('lifecycle', {}))).toBe(false);
  });

  test('has text and image attachments, or none', () => {
    verifies('004:shape:messaging-attachments');
    for (const value of [undefined, [], ['text'], ['image'], ['text', 'image']]) {
      expect(accepts(changed('messaging.attachments', value))).toBe(true);
    }
    for (const value of [['audio'], 'text', true, [1]]) {
      expect(accepts(changed('messaging.attachments', value))).toBe(false);
    }
  });

  test('has a list of delivery modes', () => {
    verifies('004:shape:delivery-modes', '004:shape:delivery-mode-values');
    expectTypeOf<DeliveryMode>().toEqualTypeOf<
      'immediate' | 'next-message' | 'next-tool-call' | 'on-idle' | 'manual'
    >();
    expect(deliveryModes).toHaveLength(5);
    for (const mode of deliveryModes) expect(accepts(changed('delivery.modes', [mode]))).toBe(true);
    for (const value of [undefined, [], ['never'], 'immediate', { immediate: true }]) {
      expect(accepts(changed('delivery.modes', value))).toBe(false);
    }
  });

  test('has a list of event types', () => {
    verifies(
      '004:shape:events-emits',
      '004:events:emits-example',
      '004:event-type:values',
      '004:event-type:subset',
    );
    expectTypeOf<AgentSessionEventType>().toEqualTypeOf<Specified.AgentSessionEventType>();
    expect(agentSessionEventTypes).toHaveLength(34);
    expect(new Set(agentSessionEventTypes).size).toBe(34);
    expect(accepts(full)).toBe(true);
    for (const value of [[], ['log'], [...agentSessionEventTypes]]) {
      expect(accepts(changed('events.emits', value))).toBe(true);
    }
    for (const value of [undefined, 'log', ['status.paused'], ['run.ended']]) {
      expect(accepts(changed('events.emits', value))).toBe(false);
    }
  });

  test('can declare every event type', () => {
    verifies(
      '004:event-type:status',
      '004:event-type:tool',
      '004:event-type:message',
      '004:event-type:delivery',
      '004:event-type:action',
      '004:event-type:transcript-file',
      '004:event-type:command',
      '004:event-type:terminal',
      '004:event-type:usage',
      '004:event-type:session',
      '004:event-type:log-error',
    );
    for (const type of agentSessionEventTypes) {
      const declared = { ...minimum, events: { emits: [type] } };
      expect(capabilitiesSchema.parse(declared)).toStrictEqual(declared);
    }
  });

  test('has no channels, no interrupt and no names of actions', () => {
    verifies(
      '004:messaging:no-channels-capability',
      '004:delivery:no-interrupt-capability',
      '004:actions:no-names',
    );
    for (const [path, value] of [
      ['channels', true],
      ['messaging.channels', true],
      ['interrupt', true],
      ['delivery.interrupt', true],
      ['actions.names', ['deploy']],
      ['actions', ['deploy']],
      ['actions.deploy', true],
      ['events.accepts', []],
      ['lifecycle.stop', true],
    ] as const) {
      expect(accepts(changed(path, value)), path).toBe(false);
    }
  });
});

describe('AgentStatus', () => {
  test('has the ten values of the specification', () => {
    verifies('004:status:values');
    expectTypeOf<AgentStatus>().toEqualTypeOf<Specified.AgentStatus>();
    expect(agentStatuses).toHaveLength(10);
    const event = { type: 'status.changed', status: 'busy' };
    expect(sessionEventSchema.safeParse(event).success).toBe(false);
  });

  test('is not part of an identity', () => {
    verifies('004:status:not-identity');
    const identity = { handle: 'ada', name: 'Ada', kind: 'human' };
    expect(identitySchema.parse(identity)).toStrictEqual(identity);
    expect(identitySchema.safeParse({ ...identity, status: 'idle' }).success).toBe(false);
  });
});

describe('TranscriptChunk', () => {
  const chunk = {
    id: 'c1',
    at: '2026-03-01T10:00:00.000Z',
    role: 'agent',
    content: 'Hello',
    sequence: 3,
  } as const;

  test('has the fields of the specification', () => {
    verifies('004:chunk:fields', '004:chunk:role');
    expectTypeOf<
      Same<Plain<TranscriptChunk>, WithTimes<Specified.TranscriptChunk>>
    >().toEqualTypeOf<true>();
    expect(transcriptChunkSchema.parse(chunk)).toStrictEqual(chunk);
    const described = { ...chunk, metadata: { tokens: 7, of: ['a'] } };
    expect(transcriptChunkSchema.parse(described)).toStrictEqual(described);
    for (const field of Object.keys(chunk)) {
      const { [field]: _, ...rest } = chunk as Record<string, unknown>;
      expect(transcriptChunkSchema.safeParse(rest).success, field).toBe(false);
    }
    for (const role of ['agent', 'user', 'system', 'tool']) {
      expect(transcriptChunkSchema.safeParse({ ...chunk, role }).success).toBe(true);
    }
    for (const wrong of [{ role: 'assistant' }, { sequence: '3' }, { metadata: 'x' }, { seq: 3 }]) {
      expect(transcriptChunkSchema.safeParse({ ...chunk, ...wrong }).success).toBe(false);
    }
  });

  test('has a time, which is a string once it is stored', () => {
    verifies('004:chunk:at');
    const { at } = chunk;
    expect(transcriptChunkSchema.parse({ ...chunk, at: new Date(at) })).toStrictEqual(chunk);
    for (const wrong of ['yesterday', 7, new Date(NaN), null]) {
      expect(transcriptChunkSchema.safeParse({ ...chunk, at: wrong }).success).toBe(false);
    }
  });
});

/** Fields with a value that each may have, and one that it may not have; `any` may have every value. */
type Fields = Readonly<Record<string, readonly [value: unknown, wrong?: unknown]>>;

const text = ['text', 7] as const;
const number = [7, '7'] as const;
const boolean = [true, 'true'] as const;
const any = [{ some: ['json', null] }] as const;
const time = ['2026-03-01T10:00:00.000Z', 'soon'] as const;
const status = ['idle', 'busy'] as const;

function expectMember(type: AgentSessionEvent['type'], required: Fields, optional: Fields = {}) {
  const parse = (value: unknown) => sessionEventSchema.safeParse(value);
  const valuesOf = (fields: Fields) =>
    Object.fromEntries(Object.entries(fields).map(([name, [value]]) => [name, value]));
  const least = { type, ...valuesOf(required) };
  const most = { ...least, ...valuesOf(optional) };
  expect(parse(least)).toStrictEqual({ success: true, data: least });
  expect(parse(most)).toStrictEqual({ success: true, data: most });
  const inferred = { ...least, fidelity: 'inferred' };
  expect(parse(inferred)).toStrictEqual({ success: true, data: inferred });
  for (const name of Object.keys(required)) {
    const { [name]: _, ...rest } = most as Record<string, unknown>;
    expect(parse(rest).success, `${type} without ${name}`).toBe(false);
  }
  for (const [name, [, wrong]] of Object.entries({ ...required, ...optional })) {
    if (wrong === undefined) continue;
    expect(parse({ ...most, [name]: wrong }).success, `${type} with a wrong ${name}`).toBe(false);
  }
  for (const more of [{ other: 1 }, { seq: 1 }, { at: time[0] }, { fidelity: 'exact' }]) {
    expect(parse({ ...most, ...more }).success, JSON.stringify(more)).toBe(false);
  }
}

describe('AgentSessionEvent', () => {
  test('has the members of the specification and no other', () => {
    verifies('004:event:union-members');
    type Types = AgentSessionEvent['type'];
    expectTypeOf<Types>().toEqualTypeOf<Specified.AgentSessionEvent['type']>();
    type Differing = {
      [Type in Types]: Same<
        Plain<OfType<AgentSessionEvent, Type>>,
        WithTimes<OfType<Specified.AgentSessionEvent, Type>>
      > extends true
        ? never
        : Type;
    }[Types];
    expectTypeOf<Differing>().toEqualTypeOf<never>();
    const types = sessionEventSchema.options.map(({ shape }) => shape.type.value);
    expect(new Set(types).size).toBe(29);
    expect(types.filter((type) => !agentSessionEventTypes.includes(type))).toEqual([]);
    const known = new Set<string>(types);
    expect(agentSessionEventTypes.filter((type) => !known.has(type))).toEqual([
      'status.idle',
      'status.active',
      'status.blocked',
      'status.waiting',
      'status.offline',
    ]);
  });

  test('has status.changed', () => {
    verifies('004:event:status-changed');
    expectMember('status.changed', { status }, { previousStatus: status, reason: text });
  });

  test('has the events of tools', () => {
    verifies(
      '004:event:tool-called',
      '004:event:tool-completed',
      '004:event:tool-failed',
      '004:event:tool-output',
    );
    expectMember('tool.called', { tool: text }, { run: text, input: any });
    expectMember('tool.completed', { tool: text }, { run: text, output: any, durationMs: number });
    expectMember('tool.failed', { tool: text, error: text }, { run: text, retryable: boolean });
    expectMember('tool.output', { tool: text, output: text }, { run: text });
  });

  test('has the events of messages and deliveries', () => {
    verifies(
      '004:event:message-received',
      '004:event:message-sent',
      '004:event:delivery-accepted',
      '004:event:delivery-delivered',
      '004:event:delivery-deferred',
      '004:event:delivery-failed',
    );
    const delivery = { deliveryId: text, messageId: text };
    expectMember('message.received', { messageId: text }, { deliveryId: text });
    expectMember('message.sent', { messageId: text });
    expectMember('delivery.accepted', delivery);
    expectMember('delivery.delivered', delivery);
    expectMember('delivery.deferred', { ...delivery, availableAt: time }, { reason: text });
    expectMember('delivery.failed', { ...delivery, reason: text }, { retryable: boolean });
  });

  test('takes a date or a string for the time until which a delivery is deferred', () => {
    verifies('004:event:delivery-deferred');
    const event = { type: 'delivery.deferred', deliveryId: 'd', messageId: 'm' } as const;
    const [availableAt] = time;
    for (const given of [availableAt, new Date(availableAt)]) {
      expect(sessionEventSchema.parse({ ...event, availableAt: given })).toStrictEqual({
        ...event,
        availableAt,
      });
    }
  });

  test('has the events of actions', () => {
    verifies(
      '004:event:action-invoked',
      '004:event:action-completed',
      '004:event:action-failed',
      '004:event:action-denied',
    );
    const action = { action: text, invocationId: text };
    expectMember('action.invoked', action);
    expectMember('action.completed', action, { durationMs: number });
    expectMember('action.failed', { ...action, error: text }, { retryable: boolean });
    expectMember('action.denied', { ...action, reason: text });
  });

  test('has transcripts, files, commands and terminals', () => {
    verifies(
      '004:event:transcript-chunk',
      '004:event:file-changed',
      '004:event:command-started',
      '004:event:command-completed',
      '004:event:command-failed',
      '004:event:terminal-output',
      '004:event:terminal-screen',
    );
    const chunk = { id: 'c', at: time[0], role: 'user', content: 'Hi', sequence: 1 };
    expectMember('transcript.chunk', { chunk: [chunk, { ...chunk, role: 'robot' }] });
    expectMember('file.changed', { path: text, operation: ['update', 'move'] }, { diff: text });
    expectMember('command.started', { command: text }, { cwd: text });
    const exit = { exitCode: number };
    expectMember('command.completed', { command: text }, { ...exit, durationMs: number });
    expectMember('command.failed', { command: text, error: text }, exit);
    expectMember('terminal.output', { text }, { stream: ['combined', 'stdin'] });
    expectMember('terminal.screen', { text }, { rows: number, cols: number });
  });

  test('has usage, the life of the session, logs and errors', () => {
    verifies(
      '004:event:usage-updated',
      '004:event:session-started',
      '004:event:session-released',
      '004:event:session-resumed',
      '004:event:session-forked',
      '004:event:log',
      '004:event:error',
    );
    const metadata = [{ some: 'json' }, 'text'] as const;
    expectMember('usage.updated', {}, { tokens: number, costUsd: number, metadata });
    expectMember('session.started', { sessionId: text });
    expectMember('session.released', { sessionId: text }, { reason: text });
    expectMember('session.resumed', { sessionId: text });
    expectMember('session.forked', { sessionId: text, parentSessionId: text });
    expectMember('log', { level: ['warn', 'fatal'], message: text });
    expectMember('error', { error: text }, { code: text, retryable: boolean });
  });
});
