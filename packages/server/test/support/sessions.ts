/** Sessions and messages of tests. */
import { newSession, type SessionParts, sessionCreated, statusOf } from '@relay/core';
import type { AgentSessionCapabilities, IdentityKind } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { expect } from 'vitest';
import type { RequestOptions, TestServer } from './server.ts';

export interface SessionOptions extends Partial<SessionParts> {
  readonly handle: string;
  readonly kind?: IdentityKind;
  readonly harness?: string;
  readonly tenantId?: string;
  readonly messaging?: Partial<AgentSessionCapabilities['messaging']>;
  readonly delivery?: Partial<AgentSessionCapabilities['delivery']>;
  readonly activeRunId?: string;
  /** Its program has a stream open. */
  readonly isStreaming?: boolean;
}

const allModes = ['on-idle', 'immediate', 'next-message', 'next-tool-call', 'manual'] as const;

/** Stores an idle session, or one in another state. */
export async function addSession(server: TestServer, options: SessionOptions): Promise<string> {
  const { handle, kind = 'program', harness = 'remote', tenantId = server.tenantId } = options;
  const { messaging, delivery, activeRunId = null } = options;
  const { lifecycle = 'open', turn = 'none', connection = 'reachable' } = options;
  const id = uuidv7();
  const state = { ...newSession, lifecycle, turn, connection };
  const createdAt = Date.now();
  const outcome = await server.store.tenant(tenantId).sessions.create({
    id,
    createdAt,
    definition: {
      handle,
      name: handle,
      kind,
      harness,
      capabilities: {
        messaging: { receive: true, send: true, attachments: ['text', 'image'], ...messaging },
        delivery: { modes: [...allModes], queue: true, ...delivery },
        events: { emits: ['status.changed'] },
        lifecycle: { release: true },
      },
      conversationId: uuidv7(),
      agent: null,
      model: null,
      labels: {},
      workspace: null,
      permissions: null,
      parentSessionId: null,
      owner: 'ada',
      keyId: null,
    },
    progress: {
      status: statusOf(state),
      state,
      activeRunId,
      releasedAt: lifecycle === 'released' ? createdAt : null,
      dueAt: null,
    },
    events: sessionCreated(id),
  });
  expect(outcome.kind).toBe('created');
  if (options.isStreaming === true) {
    const { node } = server.relay.control.engine.settings;
    const stream = { id: uuidv7(), node, at: createdAt };
    expect(await server.store.tenant(tenantId).sessions.openStream(id, stream)).toBe(true);
  }
  return id;
}

export interface ShownDelivery {
  readonly id: string;
  readonly sessionId: string;
  readonly handle: string;
  readonly status: string;
  readonly [field: string]: unknown;
}

export interface ShownMessage {
  readonly id: string;
  readonly text: string;
  readonly deliveries: readonly ShownDelivery[];
  readonly [field: string]: unknown;
}

export async function sendMessage(
  server: TestServer,
  body: object,
  options: Omit<RequestOptions, 'body'> = {},
): Promise<ShownMessage> {
  const response = await server.request('/v1/messages', { ...options, body });
  const message = (await response.json()) as ShownMessage;
  expect(response.status, JSON.stringify(message)).toBe(201);
  return message;
}
