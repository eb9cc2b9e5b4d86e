/** Every operation against a session that lacks its capability: a structured answer, never silence. */
import {
  type AgentSessionCapabilities,
  agentSessionEventTypes,
  agentStatuses,
  attachmentTypes,
  capabilitiesSchema,
  type CapabilityDetails,
  capabilityDetailsSchema,
  type CapabilityPath,
  capabilityPaths,
  deliveryModes,
  type SessionEvent,
} from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import {
  capabilityError,
  holdsCapability,
  missingCapability,
  type SessionOperation,
} from '../../src/sessions/capabilities.ts';

const all: AgentSessionCapabilities = {
  messaging: { receive: true, send: true, attachments: [...attachmentTypes] },
  delivery: { modes: [...deliveryModes], queue: true },
  events: { emits: [...agentSessionEventTypes] },
  actions: { invoke: true, expose: true },
  lifecycle: { release: true, pause: true, resume: true, fork: true, snapshot: true },
};
const minimum: AgentSessionCapabilities = {
  messaging: { receive: true },
  delivery: { modes: ['immediate'] },
  events: { emits: ['status.changed'] },
  lifecycle: { release: false },
};

const message = {
  type: 'receive-message',
  mode: 'immediate',
  attachments: [],
  isQueued: false,
  status: 'idle',
} as const satisfies SessionOperation;

const toolCalled: SessionEvent = { type: 'tool.called', tool: 'bash' };

interface Case {
  readonly operation: SessionOperation;
  /** What the minimum session answers. */
  readonly missing: CapabilityDetails;
}

function lacks(path: CapabilityPath): CapabilityDetails {
  return { path, asked: true, offered: false };
}

const cases: Record<string, Case> = {
  release: { operation: { type: 'release' }, missing: lacks('lifecycle.release') },
  pause: { operation: { type: 'pause' }, missing: lacks('lifecycle.pause') },
  resume: { operation: { type: 'resume' }, missing: lacks('lifecycle.resume') },
  fork: { operation: { type: 'fork' }, missing: lacks('lifecycle.fork') },
  snapshot: { operation: { type: 'snapshot' }, missing: lacks('lifecycle.snapshot') },
  flush: {
    operation: { type: 'flush' },
    missing: { path: 'delivery.modes', asked: 'manual', offered: ['immediate'] },
  },
  'send-message': { operation: { type: 'send-message' }, missing: lacks('messaging.send') },
  'invoke-action': { operation: { type: 'invoke-action' }, missing: lacks('actions.invoke') },
  'expose-action': { operation: { type: 'expose-action' }, missing: lacks('actions.expose') },
  'report-event': {
    operation: { type: 'report-event', event: toolCalled },
    missing: { path: 'events.emits', asked: 'tool.called', offered: ['status.changed'] },
  },
  observe: {
    operation: { type: 'observe', events: ['tool.called', 'tool.failed'] },
    missing: { path: 'events.emits', asked: 'tool.called', offered: ['status.changed'] },
  },
  ...Object.fromEntries(
    deliveryModes
      .filter((mode) => mode !== 'immediate')
      .map((mode): [string, Case] => [
        `a message with the mode ${mode}`,
        {
          operation: { ...message, mode },
          missing: { path: 'delivery.modes', asked: mode, offered: ['immediate'] },
        },
      ]),
  ),
  ...Object.fromEntries(
    attachmentTypes.map((type): [string, Case] => [
      `a message with an attachment of the type ${type}`,
      {
        operation: { ...message, attachments: [type] },
        missing: { path: 'messaging.attachments', asked: type, offered: [] },
      },
    ]),
  ),
  'a message that cannot be handed over at once': {
    operation: { ...message, isQueued: true },
    missing: lacks('delivery.queue'),
  },
};

describe('a session that lacks a capability', () => {
  it.each(Object.entries(cases))('refuses %s, and names the capability', (_name, each) => {
    const found = missingCapability(minimum, each.operation);
    expect(found).toStrictEqual(each.missing);
    expect(capabilityDetailsSchema.parse(found)).toStrictEqual(found);
  });

  it.each(Object.entries(cases))('allows %s once it is declared', (_name, { operation }) => {
    expect(capabilitiesSchema.parse(all)).toStrictEqual(all);
    expect(missingCapability(all, operation)).toBeUndefined();
  });

  it.each(Object.entries(cases))('refuses %s by an error with details', (_name, each) => {
    const error = capabilityError('ada', each.operation, each.missing);
    const isReport = each.operation.type === 'report-event';
    expect(error.toBody()).toEqual({
      error: expect.stringMatching(/^The session @ada .*[^.]$/),
      code: isReport ? 'event_undeclared' : 'capability_missing',
      details: each.missing,
    });
    expect(error.status).toBe(isReport ? 422 : 409);
  });

  it('has an operation in this table for every capability that can be lacking', () => {
    const paths = new Set(Object.values(cases).map(({ missing }) => missing.path));
    expect(capabilityPaths.filter((path) => !paths.has(path))).toEqual(['messaging.receive']);
  });

  it('holds what it declares, and no capability that is false or an empty list', () => {
    expect(capabilityPaths.filter((path) => holdsCapability(all, path))).toEqual([
      ...capabilityPaths,
    ]);
    const empty: AgentSessionCapabilities = {
      ...minimum,
      messaging: { receive: true, attachments: [] },
    };
    expect(capabilityPaths.filter((path) => holdsCapability(empty, path))).toEqual([
      'messaging.receive',
      'delivery.modes',
      'events.emits',
    ]);
  });
});

describe('a message', () => {
  it.each(agentStatuses)('is received or refused by a session that is %s', (status) => {
    const hasEnded = ['releasing', 'released', 'failed'].includes(status);
    expect(missingCapability(all, { ...message, status })).toEqual(
      hasEnded ? lacks('messaging.receive') : undefined,
    );
  });

  it('is refused for the type of attachment that the session cannot read, among others', () => {
    const texts: AgentSessionCapabilities = {
      ...all,
      messaging: { receive: true, attachments: ['text'] },
    };
    const operation = { ...message, attachments: ['text', 'image', 'text'] } as const;
    expect(missingCapability(texts, operation)).toEqual({
      path: 'messaging.attachments',
      asked: 'image',
      offered: ['text'],
    });
  });
});

describe('events', () => {
  const statusChanged = (status: 'idle' | 'paused'): SessionEvent => ({
    type: 'status.changed',
    status,
  });
  const emitting = (...emits: AgentSessionCapabilities['events']['emits']) => ({
    ...minimum,
    events: { emits },
  });

  it('of a status are declared as changes, or by that status', () => {
    const report = (event: SessionEvent, capabilities: AgentSessionCapabilities) =>
      missingCapability(capabilities, { type: 'report-event', event }) === undefined;
    expect(report(statusChanged('idle'), emitting('status.changed'))).toBe(true);
    expect(report(statusChanged('idle'), emitting('status.idle'))).toBe(true);
    expect(report(statusChanged('idle'), emitting('status.active'))).toBe(false);
    expect(report(statusChanged('paused'), emitting('status.idle'))).toBe(false);
    expect(report(statusChanged('paused'), emitting('status.changed'))).toBe(true);
  });

  it('that Relay writes are reported by no session and observed of all', () => {
    const event: SessionEvent = { type: 'delivery.delivered', deliveryId: 'd1', messageId: 'm1' };
    const declaring = emitting('log', event.type);
    const operation = { type: 'report-event', event } as const;
    const missing = missingCapability(declaring, operation);
    expect(missing).toEqual({ path: 'events.emits', asked: event.type, offered: ['log'] });
    if (missing === undefined) return;
    // Although it declares the event: the text says what to do instead.
    expect(capabilityError('ada', operation, missing).message).toBe(
      'The session @ada cannot report delivery.delivered: Relay records it itself. Post a receipt of the delivery',
    );
    for (const type of ['delivery.failed', 'message.received', 'status.offline'] as const) {
      expect(
        missingCapability(emitting('log'), { type: 'observe', events: [type] }),
      ).toBeUndefined();
    }
  });

  it('are observed if the session can emit one of them', () => {
    const observe = (
      capabilities: AgentSessionCapabilities,
      ...events: AgentSessionCapabilities['events']['emits']
    ) => missingCapability(capabilities, { type: 'observe', events }) === undefined;
    expect(observe(emitting('log'), 'tool.called', 'log')).toBe(true);
    expect(observe(emitting('log'), 'tool.called', 'transcript.chunk')).toBe(false);
    // Relay reports what went wrong with any session.
    expect(observe(emitting('log'), 'error')).toBe(true);
    expect(observe(emitting('status.changed'), 'status.idle')).toBe(true);
    expect(observe(emitting('status.idle'), 'status.changed')).toBe(true);
    expect(observe(emitting('status.idle'), 'status.blocked')).toBe(false);
    expect(observe(emitting('log'), 'status.changed')).toBe(false);
  });
});
