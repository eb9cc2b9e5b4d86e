/** Sessions and messages of tests. */
import {
  newSession,
  offlineAfterMs,
  type SessionParts,
  sessionCreated,
  statusOf,
} from '@relay/core';
import type { AgentSessionCapabilities, IdentityKind } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { expect } from 'vitest';
import { FrameReader } from './frames.ts';
import type { RequestOptions, TestResponse, TestServer } from './server.ts';

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

/** What the program of a test declares, unless its capabilities are the subject. */
export const programCapabilities = {
  messaging: { receive: true, send: true },
  delivery: { modes: ['on-idle', 'immediate', 'manual'], queue: true },
  events: { emits: ['status.changed', 'log', 'usage.updated'] },
  actions: { invoke: true, expose: true },
  lifecycle: { release: true, pause: true, resume: true },
} as const satisfies AgentSessionCapabilities;

export const programIdentity = { name: 'Builder', kind: 'program' } as const;

export interface AttachBody {
  /** Default: one that no other test uses. */
  readonly handle?: string;
  /** Instead of those of `programCapabilities`. */
  readonly capabilities?: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

export interface AttachedSession {
  readonly id: string;
  readonly handle: string;
  readonly path: string;
  /** That of its last attach. */
  token: string;
}

/** A program attaches, or is refused. */
export function attach(
  server: TestServer,
  { handle = `h-${uuidv7()}`, capabilities, ...more }: AttachBody = {},
  options: Omit<RequestOptions, 'body'> = {},
): Promise<TestResponse> {
  const declared = { ...programCapabilities, ...capabilities };
  const body = { handle, identity: programIdentity, capabilities: declared, ...more };
  return server.ask('/v1/sessions/attach', { ...options, body });
}

export async function attached(...request: Parameters<typeof attach>): Promise<AttachedSession> {
  const { status, body } = await attach(...request);
  expect([status, body]).toEqual([201, expect.anything()]);
  const { session, token } = body as {
    session: { id: string; identity: { handle: string } };
    token: string;
  };
  const { id, identity } = session;
  return { id, handle: identity.handle, token, path: `/v1/sessions/${id}` };
}

/** A new process of its program, which has the token. */
export async function attachAgain(server: TestServer, session: AttachedSession): Promise<void> {
  const { handle, token: key } = session;
  session.token = (await attached(server, { handle }, { key })).token;
}

/** The stream of its program, or its journal. */
export async function openStream(
  server: TestServer,
  { path, token }: AttachedSession,
  { key = token, kind = 'deliveries/stream' }: { key?: string; kind?: string } = {},
): Promise<FrameReader> {
  const response = await server.request(`${path}/${kind}`, { key });
  expect(response.status).toBe(200);
  return new FrameReader(response);
}

/** As if its program had closed its stream some time ago. */
export async function leave(server: TestServer, { id }: AttachedSession, ms: number) {
  const { sessions } = server.store.tenant(server.tenantId);
  const at = Date.now() - ms;
  const stream = { id: uuidv7(), node: 'gone', at };
  await sessions.openStream(id, stream);
  await sessions.closeStream(id, { ...stream, dueBy: at + offlineAfterMs });
}

export function postReceipt(
  server: TestServer,
  { path, token }: AttachedSession,
  deliveryId: string,
  body: object,
  key = token,
): Promise<TestResponse> {
  return server.ask(`${path}/deliveries/${deliveryId}/receipt`, { body, key });
}

export function postEvents(
  server: TestServer,
  { path, token: key }: AttachedSession,
  body: object,
): Promise<TestResponse> {
  return server.ask(`${path}/events`, { body, key });
}

/** The events of its journal. */
export async function journalOf(
  server: TestServer,
  { path }: Pick<AttachedSession, 'path'>,
): Promise<({ type: string } & Record<string, unknown>)[]> {
  const { events } = await server.json(`${path}/events`);
  return events as ({ type: string } & Record<string, unknown>)[];
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
