/**
 * The harnesses by name: what `POST /v1/sessions` makes, who carries out a command, and what happens when a
 * session is due. A harness that is added here needs no other change of the HTTP API.
 */
import {
  attendSession,
  createAttachedSession,
  type Engine,
  type LifecycleCommand,
  requestCommand,
  type SessionRecord,
  type SessionRef,
} from '@relay/core';
import {
  type AgentSessionCapabilities,
  type BodyOf,
  type Decider,
  defined,
  personOf,
  RelayError,
} from '@relay/protocol';
import { invalidField } from '../http/errors.ts';

export interface SessionRequest {
  readonly tenantId: string;
  readonly by: Decider;
  readonly body: BodyOf<'createSession'>;
}

export interface SessionHarness {
  create(engine: Engine, request: SessionRequest): Promise<SessionRecord>;
  command(
    engine: Engine,
    ref: SessionRef,
    command: LifecycleCommand,
    by: Decider,
  ): Promise<SessionRecord>;
  /** Its `dueAt` has come. */
  attend(engine: Engine, ref: SessionRef): Promise<unknown>;
}

export type HarnessRegistry = ReadonlyMap<string, SessionHarness>;

/** Also for a harness that is no longer configured. */
export const program = { command: requestCommand, attend: attendSession };

/** A program that attaches over HTTP. */
const remote: SessionHarness = {
  ...program,
  create: () => {
    throw invalidField(
      'harness',
      'A remote program attaches itself, with POST /v1/sessions/attach',
    );
  },
};

/** What a person can do in a client: messages are shown at once, or when the person asks for them. */
const humanCapabilities: AgentSessionCapabilities = {
  messaging: { receive: true, send: true, attachments: ['text', 'image'] },
  delivery: {
    modes: ['on-idle', 'immediate', 'next-message', 'next-tool-call', 'manual'],
    queue: true,
  },
  events: { emits: ['status.changed'] },
  lifecycle: { release: true },
};

/** A person, who uses keys of the same owner. */
const human: SessionHarness = {
  ...program,
  create: async (engine, { tenantId, by, body }) => {
    const { handle, labels, agent, model, workspace, permissions, fromSnapshot } = body;
    const refused = Object.entries({ agent, model, workspace, permissions, fromSnapshot }).find(
      ([, value]) => value !== undefined,
    );
    if (refused !== undefined) {
      throw invalidField(refused[0], 'A session of the harness human has none');
    }
    const session = await createAttachedSession(engine, {
      tenantId,
      by,
      mayTakeOver: false,
      takeover: false,
      handle,
      name: personOf(by) === by.id ? by.name : personOf(by),
      kind: 'human',
      capabilities: humanCapabilities,
      ...defined({ labels }),
    });
    if (session !== undefined) return session;
    throw new RelayError('handle_taken', `Another session has the handle ${handle}`);
  },
};

export const builtInHarnesses: HarnessRegistry = new Map([
  ['human', human],
  ['remote', remote],
]);

/** Throws `invalid_request` for a name that no harness has. */
export function harnessNamed(harnesses: HarnessRegistry, name: string): SessionHarness {
  const harness = harnesses.get(name);
  if (harness !== undefined) return harness;
  const names = [...harnesses.keys()].toSorted().join(', ');
  throw invalidField('harness', `No harness has this name; there are ${names}`);
}
