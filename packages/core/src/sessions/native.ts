/** Native sessions: agents of this server, whose turns are runs (native-turns.ts). */
import type { AgentSessionCapabilities } from '@relay/protocol';
import { type SafeState, defaultSafeStates } from './modes.ts';

export const nativeHarness = 'native';

export const nativeSafeStates: readonly SafeState[] = defaultSafeStates;

export const nativeCapabilities: AgentSessionCapabilities = {
  messaging: { receive: true, send: true, attachments: ['text', 'image'] },
  delivery: {
    modes: ['immediate', 'next-message', 'next-tool-call', 'on-idle', 'manual'],
    queue: true,
  },
  events: {
    emits: [
      'status.changed',
      'tool.called',
      'tool.completed',
      'tool.failed',
      'message.received',
      'message.sent',
      'delivery.accepted',
      'delivery.delivered',
      'delivery.deferred',
      'delivery.failed',
      'transcript.chunk',
      'usage.updated',
      'session.started',
      'session.released',
      'session.resumed',
      'session.forked',
      'action.invoked',
      'action.completed',
      'action.failed',
      'action.denied',
      'error',
    ],
  },
  actions: { invoke: true },
  lifecycle: { release: true, pause: true, resume: true, fork: true, snapshot: true },
};
