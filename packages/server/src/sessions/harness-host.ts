/** The sessions of the harnesses of `relay.config.ts` that live in this process. */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  askFork,
  createHostedSession,
  exponentialBackoff,
  type ForkRequest,
  handleTaken,
  type Harness,
  readProgramSnapshot,
  type SessionRecord,
  type SessionRef,
} from '@relay/core';
import { defined, RelayError } from '@relay/protocol';
import { invalidField } from '../http/errors.ts';
import { type NamedHarness, programs, type SessionRequest } from './harnesses.ts';
import { HostedSession, type HostOptions } from './hosted-session.ts';

const sessionsPerRead = 100;
const maxBackoffMs = 60_000;

export class HarnessHost {
  readonly #options: HostOptions;
  readonly #harnesses: readonly Harness[];
  readonly #sessions = new Set<HostedSession>();
  readonly #stopping = new AbortController();

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
        create: (request) => this.#start(harness, request),
        fork: (parent, request) => this.#fork(harness, parent, request),
      },
    ]);
  }

  /** Attaches the sessions that this node has had before it was started. */
  async start(): Promise<void> {
    for (const harness of this.#harnesses) {
      for await (const ref of this.#sessionsOf(harness)) {
        void this.#keep(harness, ref);
      }
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(Array.from(this.#sessions, (session) => session.stop()));
  }

  async *#sessionsOf({ name }: Harness): AsyncGenerator<SessionRef, void> {
    const { store } = this.#options.engine;
    for (let after = ''; ;) {
      const refs = await store.sessions.ofHarness(name, { after, limit: sessionsPerRead });
      for (const ref of refs) {
        const session = await store.tenant(ref.tenantId).sessions.read(ref.sessionId);
        const isFailed = session?.state.lifecycle === 'failed';
        if (session?.state.host?.node === this.#options.node && !isFailed) yield ref;
      }
      const last = refs.at(-1);
      if (last === undefined || refs.length < sessionsPerRead) return;
      after = last.sessionId;
    }
  }

  /** Attaches it until it is over. Never rejects. */
  async #keep(harness: Harness, ref: SessionRef): Promise<void> {
    const { clock } = this.#options.engine;
    for (let failures = 1; !this.#stopping.signal.aborted; failures += 1) {
      const hosted = new HostedSession(this.#options, harness, ref);
      this.#sessions.add(hosted);
      const outcome = await hosted.resume();
      this.#sessions.delete(hosted);
      if (outcome === 'over') return;
      await clock.sleep(exponentialBackoff(failures, maxBackoffMs), this.#stopping.signal);
    }
  }

  async #start(harness: Harness, request: SessionRequest): Promise<SessionRecord> {
    const { workspace, permissions, fromSnapshot } = request.body;
    const refused = Object.entries({ workspace, permissions }).find(
      ([, value]) => value !== undefined,
    );
    if (refused !== undefined) {
      throw invalidField(refused[0], `The harness ${harness.name} takes none`);
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
    const { tenantId, id: parentSessionId, labels, agent, model } = parent;
    const { by, handle } = request;
    const content = await askFork(this.#options.engine, parent, request);
    const optional = defined({ agent: agent ?? undefined, model: model ?? undefined });
    const body = { harness: harness.name, handle, labels, ...optional };
    const from = { parentSessionId, content, isForked: true };
    return this.#create(harness, { tenantId, by, body }, from);
  }

  async #create(
    harness: Harness,
    request: SessionRequest,
    from?: {
      readonly parentSessionId: string;
      readonly content: unknown;
      readonly isForked: boolean;
    },
  ): Promise<SessionRecord> {
    const { tenantId, by, body } = request;
    const { handle, labels = {}, agent, model } = body;
    if (this.#stopping.signal.aborted)
      throw new RelayError('shutting_down', 'The server is shutting down');
    const { engine } = this.#options;
    // Before the harness does anything for it.
    if ((await engine.store.tenant(tenantId).sessions.readByHandle(handle)) !== undefined) {
      throw handleTaken(handle);
    }
    const sessionId = engine.ids.next();
    const hosted = new HostedSession(this.#options, harness, { tenantId, sessionId });
    const continued = from === undefined ? undefined : (from.content ?? null);
    const input = { sessionId, handle, labels, ...defined({ agent, model, from: continued }) };
    const session = await hosted.create(input, ({ identity, capabilities }, host) =>
      createHostedSession(engine, {
        tenantId,
        by,
        sessionId,
        harness: harness.name,
        identity,
        capabilities,
        host,
        agent,
        model,
        labels,
        parentSessionId: from?.parentSessionId,
        isForked: from?.isForked ?? false,
      }),
    );
    this.#sessions.add(hosted);
    void hosted.ended.finally(() => this.#sessions.delete(hosted));
    if (this.#stopping.signal.aborted) await hosted.stop();
    return session;
  }
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
