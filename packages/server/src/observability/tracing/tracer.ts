/**
 * Watches what is committed, and tells the spans that it ends.
 *
 * What is kept of a run is small, and nothing of one that waits. A run that this node has not seen
 * from its beginning, or of which it missed something, is recalled from the store first; what happens
 * meanwhile queues up behind that. Nobody waits for any of it.
 */
import { type Log, readSnapshot, type SystemStore } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';
import { RunTrace } from './run-trace.ts';
import type { Span } from './span.ts';

const maxRuns = 10_000;
const pageSize = 1_000;

interface Watched {
  readonly trace: RunTrace;
  lastSeq: number;
  /** Events that came while the run is being recalled; undefined: it is known. */
  behind: StoredEvent[] | undefined;
}

export interface TracerOptions {
  readonly store: SystemStore;
  readonly log: Log;
  /** It may not throw, and not wait. */
  readonly tell: (spans: readonly Span[]) => void;
}

export class Tracer {
  readonly #options: TracerOptions;
  readonly #runs = new Map<string, Watched>();
  readonly #recalling = new Set<Promise<void>>();

  constructor(options: TracerOptions) {
    this.#options = options;
  }

  /** Runs of which something is kept. */
  get size(): number {
    return this.#runs.size;
  }

  /** EventBuffer after each commit. It never throws. */
  publish(runId: string, events: readonly StoredEvent[], tenantId: string): void {
    const [first] = events;
    const last = events.at(-1);
    if (first === undefined || last === undefined) {
      this.#runs.delete(runId);
      return;
    }
    const watched = this.#watched({ runId, tenantId }, first.seq);
    watched.lastSeq = last.seq;
    // Words are by far the most frequent, and end nothing.
    const telling =
      first.type === 'text.appended' && last.type === 'text.appended'
        ? []
        : events.filter(({ type }) => type !== 'text.appended' && type !== 'reasoning.appended');
    if (watched.behind === undefined) this.#tell(watched.trace, telling);
    else watched.behind.push(...telling);
    if (last.type === 'run.ended' || last.type === 'run.suspended') this.#runs.delete(runId);
  }

  /** Resolves when everything that was published has been told. */
  async settled(): Promise<void> {
    while (this.#recalling.size > 0) await Promise.all(this.#recalling);
  }

  #watched(run: { runId: string; tenantId: string }, firstSeq: number): Watched {
    const { runId, tenantId } = run;
    const known = this.#runs.get(runId);
    if (known !== undefined && known.lastSeq + 1 === firstSeq) return known;
    const watched: Watched = {
      trace: new RunTrace(runId, tenantId),
      lastSeq: firstSeq - 1,
      behind: firstSeq === 1 ? undefined : [],
    };
    this.#runs.delete(runId);
    this.#runs.set(runId, watched);
    if (this.#runs.size > maxRuns) this.#runs.delete(this.#runs.keys().next().value ?? runId);
    if (watched.behind !== undefined) {
      const recalling = this.#catchUp(watched, run).finally(() =>
        this.#recalling.delete(recalling),
      );
      this.#recalling.add(recalling);
    }
    return watched;
  }

  /** It never rejects: a run that cannot be recalled is told without what its past would add. */
  async #catchUp(watched: Watched, run: { runId: string; tenantId: string }): Promise<void> {
    const upTo = watched.lastSeq;
    try {
      await this.#recall(watched.trace, run, upTo);
    } catch (error) {
      const { runId } = run;
      this.#options.log.warn('A trace goes on without its beginning', { runId, error });
    }
    const behind = watched.behind ?? [];
    watched.behind = undefined;
    this.#tell(watched.trace, behind);
  }

  async #recall(
    trace: RunTrace,
    { runId, tenantId }: { runId: string; tenantId: string },
    upTo: number,
  ): Promise<void> {
    const store = this.#options.store.tenant(tenantId);
    const [created] = await store.readEvents(runId, { after: 0, limit: 1 });
    if (created !== undefined) trace.take(created);
    const snapshot = readSnapshot((await store.readRun(runId))?.snapshot ?? null);
    for (const { id, name, model, spawned, turn } of Object.values(snapshot?.agents ?? {})) {
      for (const { approval } of turn?.calls ?? []) {
        if (approval !== undefined) trace.knowApproval(approval.id, approval.kind);
      }
      trace.know(id, {
        name,
        model,
        ...(spawned === null ? {} : { toolCallId: spawned.toolCallId }),
      });
    }
    for (let after = snapshot?.seq ?? 0; after < upTo;) {
      const page = await store.readEvents(runId, { after, limit: pageSize });
      // What they ended was told when it happened.
      for (const event of page) if (event.seq <= upTo) trace.take(event);
      const last = page.at(-1);
      if (last === undefined) return;
      after = last.seq;
    }
  }

  #tell(trace: RunTrace, events: readonly StoredEvent[]): void {
    const spans = events.flatMap((event) => trace.take(event));
    if (spans.length > 0) this.#options.tell(spans);
  }
}
