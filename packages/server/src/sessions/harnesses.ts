/**
 * The harnesses by name: what `POST /v1/sessions` makes, who carries out a command, and what happens when a
 * session is due. A harness that is added here needs no other change of the HTTP API.
 */
import {
  agentNamed,
  attendSession,
  commandNative,
  createAttachedSession,
  createNativeSession,
  type Engine,
  forkNative,
  forkProgram,
  type ForkRequest,
  handleTaken,
  type LifecycleCommand,
  nativeHarness,
  NativeTurns,
  type NewAuditEntry,
  noTerminal,
  readNativeSnapshot,
  requestCommand,
  type RunControl,
  type SessionCaller,
  type SessionRecord,
  type SessionRef,
  type SessionSnapshot,
  snapshotNative,
  snapshotProgram,
  type TerminalInput,
  type TurnOptions,
} from '@relay/core';
import {
  type AgentSessionCapabilities,
  type BodyOf,
  type Decider,
  defined,
  personOf,
} from '@relay/protocol';
import { invalidField } from '../http/errors.ts';
import { requireModel } from '../outbound/providers.ts';

export interface SessionRequest {
  readonly tenantId: string;
  readonly by: Decider;
  readonly body: BodyOf<'createSession'>;
}

/** What is done with a session that exists. */
export interface SessionOperations {
  /** Its sessions are programs, which are started with the scope `approve` only. */
  readonly runsProcesses?: boolean;
  command(
    ref: SessionRef,
    command: LifecycleCommand,
    caller: SessionCaller,
  ): Promise<SessionRecord>;
  /** A new session that continues from this one. */
  fork(parent: SessionRecord, request: ForkRequest): Promise<SessionRecord>;
  snapshot(session: SessionRecord): Promise<SessionSnapshot>;
  /** Types into its terminal. Throws `capability_missing` for a session without one. */
  input(
    session: SessionRecord,
    input: TerminalInput,
    audit: readonly NewAuditEntry[],
  ): Promise<void>;
  /** Its `dueAt` has come, or may have. */
  attend(session: SessionRecord): Promise<void>;
}

export interface SessionHarness extends SessionOperations {
  create(request: SessionRequest): Promise<SessionRecord>;
}

function hasNoTerminal({ handle, capabilities }: SessionRecord): never {
  throw noTerminal(handle, capabilities.events.emits);
}

/** Sessions whose program carries out commands. */
export function programs(engine: Engine): SessionOperations {
  return {
    command: (ref, command, { by }) => requestCommand(engine, ref, command, by),
    fork: (...asked) => forkProgram(engine, ...asked),
    snapshot: (session) => snapshotProgram(engine, session),
    input: hasNoTerminal,
    attend: ({ tenantId, id: sessionId }) => attendSession(engine, { tenantId, sessionId }),
  };
}

/** A program that attaches over HTTP. */
function remote(control: RunControl): SessionHarness {
  return {
    ...programs(control.engine),
    create: () => {
      throw invalidField(
        'harness',
        'A remote program attaches itself, with POST /v1/sessions/attach',
      );
    },
  };
}

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
function human(control: RunControl): SessionHarness {
  return {
    ...programs(control.engine),
    create: async ({ tenantId, by, body }) => {
      const { handle, labels, agent, model, workspace, permissions, fromSnapshot } = body;
      const refused = Object.entries({ agent, model, workspace, permissions, fromSnapshot }).find(
        ([, value]) => value !== undefined,
      );
      if (refused !== undefined) {
        throw invalidField(refused[0], 'A session of the harness human has none');
      }
      const session = await createAttachedSession(control.engine, {
        tenantId,
        by,
        handle,
        name: personOf(by) === by.id ? by.name : personOf(by),
        kind: 'human',
        capabilities: humanCapabilities,
        ...defined({ labels }),
      });
      if (session === undefined) throw handleTaken(handle);
      return session;
    },
  };
}

/** One of this server's agents, whose turns are runs. */
function native(control: RunControl, options: TurnOptions): SessionHarness {
  const { engine } = control;
  const turns = new NativeTurns(control, options);
  return {
    create: async ({ tenantId, by, body }) => {
      const { handle, permissions, labels, fromSnapshot } = body;
      if (body.workspace !== undefined) {
        throw invalidField('workspace', 'A native session works in the workspace of its tenant');
      }
      const snapshot =
        fromSnapshot === undefined
          ? undefined
          : await readNativeSnapshot(engine.store.tenant(tenantId), fromSnapshot);
      if (fromSnapshot !== undefined && snapshot === undefined) {
        throw invalidField('fromSnapshot', 'No such snapshot of a native session');
      }
      const agent = body.agent ?? snapshot?.agent ?? undefined;
      const model = body.model ?? snapshot?.model ?? undefined;
      const defaultModel = agentNamed(engine.agents(tenantId), agent).model ?? options.defaultModel;
      if (model === undefined && defaultModel === undefined) {
        throw invalidField('model', 'Required: neither the agent nor the server has a default');
      }
      await requireModel(engine.models(tenantId), model ?? defaultModel ?? '');
      const from =
        snapshot === undefined
          ? undefined
          : {
              parentSessionId: snapshot.sessionId,
              isForked: false,
              source: snapshot.source ?? undefined,
            };
      const request = { tenantId, by, handle, agent, model, permissions, labels };
      return createNativeSession(engine, { ...request, ...defined({ from }) });
    },
    command: (...asked) => commandNative(control, ...asked),
    fork: (...asked) => forkNative(engine, ...asked),
    snapshot: (session) => snapshotNative(engine, session),
    input: hasNoTerminal,
    attend: (session) => turns.attend(session),
  };
}

export function builtInHarnesses(control: RunControl, options: TurnOptions): NamedHarness[] {
  return [
    ['human', human(control)],
    [nativeHarness, native(control, options)],
    ['remote', remote(control)],
  ];
}

export type NamedHarness = readonly [name: string, harness: SessionHarness];

export class HarnessRegistry {
  readonly #harnesses: ReadonlyMap<string, SessionHarness>;
  readonly #unknown: SessionOperations;

  constructor(engine: Engine, harnesses: readonly NamedHarness[]) {
    this.#harnesses = new Map(harnesses);
    this.#unknown = programs(engine);
  }

  /** Throws `invalid_request` for a name that no harness has. */
  named(name: string): SessionHarness {
    const harness = this.#harnesses.get(name);
    if (harness !== undefined) return harness;
    const names = [...this.#harnesses.keys()].toSorted().join(', ');
    throw invalidField('harness', `No harness has this name; there are ${names}`);
  }

  /** One that this server no longer has is a program that cannot be reached. */
  of({ harness }: Pick<SessionRecord, 'harness'>): SessionOperations {
    return this.#harnesses.get(harness) ?? this.#unknown;
  }
}
