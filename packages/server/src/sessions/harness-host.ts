/** The sessions of the harnesses of `relay.config.ts` that live in this process. */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  askFork,
  createHostedSession,
  exponentialBackoff,
  findKeyInForce,
  type ForkRequest,
  handleTaken,
  type Harness,
  type NewAuditEntry,
  readProgramSnapshot,
  requestInput,
  requireTerminal,
  type SessionRecord,
  type SessionRef,
  type TerminalInput,
} from '@relay/core';
import { defined, RelayError } from '@relay/protocol';
import { invalidField } from '../http/errors.ts';
import { type NamedHarness, programs, type SessionRequest } from './harnesses.ts';
import type { PreparedProcess } from './agent-processes.ts';
import { HostedSession, type HostingOutcome, type HostOptions } from './hosted-session.ts';

const sessionsPerRead = 100;
const maxBackoffMs = 60_000;
const pauseCheckMs = 1_000;

export class HarnessHost {
  readonly #options: HostOptions;
  readonly #harnesses: readonly Harness[];
  readonly #sessions = new Set<HostedSession>();
  readonly #stopping = new AbortController();
  readonly #removals = new Set<Promise<void>>();

  constructor(options: HostOptions, harnesses: readonly Harness[]) {
    this.#options = options;
    this.#harnesses = harnesses;
  }

  /** The number of sessions that live here. */
  get size(): number {
    return this.#sessions.size;
  }

  get harnesses(): NamedHarness[] {
    return this.#harnesses.map((harness) => [
      harness.name,
      {
        ...programs(this.#options.engine),
        ...defined({ runsProcesses: harness.runsProcesses }),
        create: (request) => this.#start(harness, request),
        fork: (parent, request) => this.#fork(harness, parent, request),
        input: (...asked) => this.#input(...asked),
      },
    ]);
  }

  /** Attaches the sessions that this node has had before it was started. */
  async start(): Promise<void> {
    await this.#options.processes.removeLeftovers();
    for (const harness of this.#harnesses) {
      for await (const ref of this.#sessionsOf(harness)) {
        void this.#keep(harness, ref);
      }
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(Array.from(this.#sessions, (session) => session.stop()));
    await Promise.all(this.#removals);
  }

  async *#sessionsOf({ name }: Harness): AsyncGenerator<SessionRef, void> {
    const { store } = this.#options.engine;
    for (let after = ''; ;) {
      const refs = await store.sessions.ofHarness(name, { after, limit: sessionsPerRead });
      for (const ref of refs) {
        const session = await store.tenant(ref.tenantId).sessions.read(ref.sessionId);
        if (session !== undefined && (await this.#isOwn(session))) yield ref;
      }
      const last = refs.at(-1);
      if (last === undefined || refs.length < sessionsPerRead) return;
      after = last.sessionId;
    }
  }

  /** Also of a session that has not failed, and whose key has not ended. */
  async #isOwn({ tenantId, keyId, state }: SessionRecord): Promise<boolean> {
    const { engine, node } = this.#options;
    if (state.host?.node !== node || state.lifecycle === 'failed') return false;
    const now = engine.clock.now();
    return (
      keyId === null ||
      (await findKeyInForce(engine.store.tenant(tenantId), keyId, now)) !== undefined
    );
  }

  /** Attaches it until it is over, unless its tenant is paused. Never rejects. */
  async #keep(harness: Harness, ref: SessionRef): Promise<void> {
    const { processes, engine } = this.#options;
    const { signal } = this.#stopping;
    const isProcess = harness.runsProcesses === true;
    // Its agent calls the server.
    if (isProcess) await processes.listening(signal);
    for (let failures = 1; !signal.aborted; failures += 1) {
      while (engine.invocations?.isPaused(ref.tenantId) === true && !signal.aborted) {
        await engine.clock.sleep(pauseCheckMs, signal);
      }
      if (signal.aborted) return;
      const leave = isProcess ? processes.enter() : () => undefined;
      if (leave !== undefined) {
        const hosted = new HostedSession(this.#options, harness, ref);
        void hosted.resume();
        if ((await this.#watch(hosted, ref, leave)) === 'over') return;
      }
      await engine.clock.sleep(exponentialBackoff(failures, maxBackoffMs), signal);
    }
  }

  /** Until it is over, or has failed. Never rejects. */
  async #watch(hosted: HostedSession, ref: SessionRef, leave: () => void): Promise<HostingOutcome> {
    this.#sessions.add(hosted);
    if (this.#stopping.signal.aborted) void hosted.stop();
    const outcome = await hosted.ended;
    this.#sessions.delete(hosted);
    leave();
    const removed = this.#options.processes.removeIfEnded(ref);
    this.#removals.add(removed);
    await removed;
    this.#removals.delete(removed);
    return outcome;
  }

  async #start(harness: Harness, request: SessionRequest): Promise<SessionRecord> {
    const { workspace, fromSnapshot } = request.body;
    if (workspace !== undefined && harness.runsProcesses !== true) {
      throw invalidField('workspace', `The harness ${harness.name} takes none`);
    }
    if (fromSnapshot === undefined) return this.#create(harness, request);
    const store = this.#options.engine.store.tenant(request.tenantId);
    const snapshot = await readProgramSnapshot(store, harness.name, fromSnapshot);
    if (snapshot === undefined) {
      throw invalidField('fromSnapshot', `No such snapshot of a session of ${harness.name}`);
    }
    const { sessionId: parentSessionId, result: content } = snapshot;
    return this.#create(harness, request, { parentSessionId, content, isForked: false });
  }

  /** The node of the parent says what to continue with; the new session lives here. */
  async #fork(
    harness: Harness,
    parent: SessionRecord,
    request: ForkRequest,
  ): Promise<SessionRecord> {
    const { tenantId, id: parentSessionId, labels, agent, model, workspace } = parent;
    const { by, handle, permissions } = request;
    const content = await askFork(this.#options.engine, parent, request);
    const optional = defined({
      agent: agent ?? undefined,
      model: model ?? undefined,
      workspace: workspace ?? undefined,
      permissions,
    });
    const body = { harness: harness.name, handle, labels, ...optional };
    const from = { parentSessionId, content, isForked: true };
    return this.#create(harness, { tenantId, by, body }, from);
  }

  /** The audit entry is stored before anything is typed. */
  async #input(
    session: SessionRecord,
    input: TerminalInput,
    audit: readonly NewAuditEntry[],
  ): Promise<void> {
    const { engine } = this.#options;
    requireTerminal(session);
    const hosted = Array.from(this.#sessions).find(({ id }) => id === session.id);
    if (hosted === undefined) return requestInput(engine, session, input, audit);
    await engine.store.tenant(session.tenantId).audit.add(audit);
    await hosted.input(session, input);
  }

  async #create(
    harness: Harness,
    request: SessionRequest,
    from?: Continued,
  ): Promise<SessionRecord> {
    const { tenantId, body } = request;
    const { engine, processes } = this.#options;
    if (this.#stopping.signal.aborted)
      throw new RelayError('shutting_down', 'The server is shutting down');
    // Before the harness does anything for it.
    if ((await engine.store.tenant(tenantId).sessions.readByHandle(body.handle)) !== undefined) {
      throw handleTaken(body.handle);
    }
    const ref = { tenantId, sessionId: engine.ids.next() };
    const hosted = new HostedSession(this.#options, harness, ref);
    if (harness.runsProcesses !== true) return this.#begin(hosted, ref, { harness, request, from });
    const leave = processes.enter();
    if (leave === undefined) throw processes.full();
    try {
      const prepared = await processes.prepare(ref, body.workspace);
      return await this.#begin(hosted, ref, { harness, request, from, prepared, leave });
    } catch (error) {
      leave();
      await processes.removeIfEnded(ref);
      throw error;
    }
  }

  async #begin(
    hosted: HostedSession,
    ref: SessionRef,
    { harness, request, from, prepared, leave = () => undefined }: Beginning,
  ): Promise<SessionRecord> {
    const { engine } = this.#options;
    const { by, body } = request;
    const { handle, labels = {}, agent, model, permissions } = body;
    const continued = from === undefined ? undefined : (from.content ?? null);
    const optional = defined({ agent, model, from: continued, process: prepared?.process });
    const input = { sessionId: ref.sessionId, handle, labels, ...optional };
    const session = await hosted.create(input, ({ identity, capabilities }, host) =>
      createHostedSession(engine, {
        ...ref,
        by,
        harness: harness.name,
        identity,
        capabilities,
        host,
        agent,
        model,
        labels,
        permissions,
        workspace: prepared?.workspace,
        tokenHash: prepared?.tokenHash,
        isStarting: harness.runsProcesses === true,
        parentSessionId: from?.parentSessionId,
        isForked: from?.isForked ?? false,
      }),
    );
    void this.#watch(hosted, ref, leave).then((outcome) =>
      outcome === 'failed' ? this.#keep(harness, ref) : undefined,
    );
    return session;
  }
}

/** What a new session continues with, and whose. */
interface Continued {
  readonly parentSessionId: string;
  readonly content: unknown;
  readonly isForked: boolean;
}

interface Beginning {
  readonly harness: Harness;
  readonly request: SessionRequest;
  readonly from: Continued | undefined;
  readonly prepared?: PreparedProcess;
  /** Gives back its place among the agents of this node. */
  readonly leave?: () => void;
}

/** The name of this node: sessions belong to it also after a restart. It is kept with the data. */
export function nodeNameOf({
  nodeId,
  dataDir,
}: {
  readonly nodeId: string | undefined;
  readonly dataDir: string;
}): string {
  if (nodeId !== undefined) return nodeId;
  const path = join(dataDir, 'node-id');
  mkdirSync(dataDir, { recursive: true });
  try {
    writeFileSync(path, `${randomUUID()}\n`, { flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return readFileSync(path, 'utf8').trim();
}
