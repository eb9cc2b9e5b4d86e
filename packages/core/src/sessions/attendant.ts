/**
 * Attends to sessions that are due: their harness does what is next, such as the turn of a native session
 * or the timeout of a program. The scan finds them after any crash and on any node; wake-ups only reduce
 * latency. Several nodes may attend to one session: of two changes, one is decided again.
 */
import { closeStream } from '../commands/sessions/stream.ts';
import type { Engine } from '../engine.ts';
import type { SessionRecord, SessionRef } from '../ports/index.ts';
import { BackgroundLoop } from '../runtime/background-loop.ts';

const scanIntervalMs = 1_000;
const batchSize = 100;

export interface AttendantOptions {
  readonly engine: Pick<Engine, 'store' | 'clock' | 'log' | 'settings'>;
  /** Does what is next for a session that is not released. */
  readonly attend: (session: SessionRecord) => Promise<unknown>;
}

export class SessionAttendant {
  readonly #engine: AttendantOptions['engine'];
  readonly #attend: AttendantOptions['attend'];
  readonly #scanning: BackgroundLoop;
  /** The sessions that are attended to now; `again`: they were woken since. */
  readonly #active = new Map<string, { again: boolean; done: Promise<void> }>();
  #isStopped = false;

  constructor({ engine, attend }: AttendantOptions) {
    const { clock, log } = engine;
    this.#engine = engine;
    this.#attend = attend;
    this.#scanning = new BackgroundLoop({
      clock,
      intervalMs: scanIntervalMs,
      step: (signal) => this.#scan(signal),
      onError: (error) => log.warn('The scan for due sessions failed', { error: String(error) }),
    });
  }

  start(): void {
    this.#scanning.start();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#scanning.stop();
    await Promise.all([...this.#active.values()].map(({ done }) => done));
  }

  /** The session is due. Resolves when it was attended to; never rejects. */
  wake(ref: SessionRef): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    const active = this.#active.get(ref.sessionId);
    if (active !== undefined) {
      active.again = true;
      return active.done;
    }
    const started = { again: false, done: Promise.resolve() };
    this.#active.set(ref.sessionId, started);
    started.done = this.#attendTo(ref, started);
    return started.done;
  }

  async #scan(signal: AbortSignal): Promise<void> {
    await this.#closeOrphans(signal);
    const { store, clock } = this.#engine;
    // Each once per scan: one that stays due must not keep the others waiting.
    const found = new Set<string>();
    while (!signal.aborted) {
      const due = await store.sessions.due(clock.now(), batchSize + found.size);
      const next = due.filter(({ sessionId }) => !found.has(sessionId));
      if (next.length === 0) return;
      for (const { sessionId } of next) found.add(sessionId);
      await Promise.all(next.map((ref) => this.wake(ref)));
    }
  }

  async #attendTo(ref: SessionRef, state: { again: boolean }): Promise<void> {
    const { store, log } = this.#engine;
    try {
      do {
        state.again = false;
        const session = await store.tenant(ref.tenantId).sessions.read(ref.sessionId);
        if (session === undefined || session.releasedAt !== null) return;
        await this.#attend(session);
      } while (state.again && !this.#isStopped);
    } catch (error) {
      // The scan finds it again.
      log.warn('Failed to attend to a session', { ...ref, error: String(error) });
    } finally {
      this.#active.delete(ref.sessionId);
    }
  }

  /** The streams of nodes that died. */
  async #closeOrphans(signal: AbortSignal): Promise<void> {
    const { store, clock, settings } = this.#engine;
    let after = '';
    while (!signal.aborted) {
      const page = { after, limit: batchSize };
      const orphans = await store.sessions.orphans(settings.node, clock.now(), page);
      for (const { stream, ...ref } of orphans) {
        await closeStream(this.#engine, ref, stream.id);
      }
      const last = orphans.at(-1);
      if (last === undefined || orphans.length < batchSize) return;
      after = last.sessionId;
    }
  }
}
