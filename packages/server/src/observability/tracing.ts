/**
 * Turns committed events into spans and exports them, if an endpoint is configured.
 *
 * The state of a run is small, and suspended runs have none. A run that this node has not seen from
 * its beginning, or with a gap in its events, is restored from the store first; events that arrive
 * meanwhile are queued. Nothing waits for tracing.
 */
import { type Engine, type Publisher, readJournal, readSnapshot } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';
import { RunTrace, type Span } from './run-trace.ts';
import type { TraceSettings } from '../config/config.ts';

const maxRuns = 10_000;

interface TracedRun {
  readonly runId: string;
  readonly tenantId: string;
  readonly trace: RunTrace;
  lastSeq: number;
  /** Events that arrived during the restore; undefined: it is complete. */
  queued: StoredEvent[] | undefined;
}

export interface TracerOptions extends Pick<Engine, 'store' | 'log'> {
  /** It must not throw or block. */
  readonly add: (spans: readonly Span[]) => void;
}

export class Tracer {
  readonly #options: TracerOptions;
  readonly #runs = new Map<string, TracedRun>();
  readonly #restores = new Set<Promise<void>>();

  constructor(options: TracerOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#runs.size;
  }

  /** Called after each commit. It never throws. */
  publish(runId: string, events: readonly StoredEvent[], tenantId: string): void {
    const [first] = events;
    const last = events.at(-1);
    if (first === undefined || last === undefined) {
      this.#runs.delete(runId);
      return;
    }
    const run = this.#tracedRun(runId, tenantId, first.seq);
    run.lastSeq = last.seq;
    // Text events are by far the most frequent, and end no span.
    const relevant =
      first.type === 'text.appended' && last.type === 'text.appended'
        ? []
        : events.filter(({ type }) => type !== 'text.appended' && type !== 'reasoning.appended');
    if (run.queued === undefined) this.#add(run.trace, relevant);
    else run.queued.push(...relevant);
    if (last.type === 'run.ended' || last.type === 'run.suspended') this.#runs.delete(runId);
  }

  /** Resolves when the spans of all published events have been added. */
  async settled(): Promise<void> {
    while (this.#restores.size > 0) await Promise.all(this.#restores);
  }

  #tracedRun(runId: string, tenantId: string, firstSeq: number): TracedRun {
    const known = this.#runs.get(runId);
    if (known !== undefined && known.lastSeq + 1 === firstSeq) return known;
    const run: TracedRun = {
      runId,
      tenantId,
      trace: new RunTrace(runId, tenantId),
      lastSeq: firstSeq - 1,
      queued: firstSeq === 1 ? undefined : [],
    };
    this.#runs.delete(runId);
    this.#runs.set(runId, run);
    if (this.#runs.size > maxRuns) this.#runs.delete(this.#runs.keys().next().value ?? runId);
    if (run.queued !== undefined) {
      const restore = this.#catchUp(run).finally(() => this.#restores.delete(restore));
      this.#restores.add(restore);
    }
    return run;
  }

  /** It never rejects: without its history, a run's spans lack some attributes. */
  async #catchUp(run: TracedRun): Promise<void> {
    try {
      await this.#restore(run);
    } catch (error) {
      const { runId } = run;
      this.#options.log.warn('A trace continues without its earlier events', { runId, error });
    }
    const queued = run.queued ?? [];
    run.queued = undefined;
    this.#add(run.trace, queued);
  }

  async #restore({ trace, runId, tenantId, lastSeq: upTo }: TracedRun): Promise<void> {
    const store = this.#options.store.tenant(tenantId);
    const [created] = await store.readEvents(runId, { after: 0, limit: 1 });
    if (created !== undefined) trace.apply(created);
    const snapshot = readSnapshot((await store.readRun(runId))?.snapshot ?? null);
    for (const { id, name, model, spawned, turn } of Object.values(snapshot?.agents ?? {})) {
      for (const { approval } of turn?.calls ?? []) {
        if (approval !== undefined) trace.addApproval(approval.id, approval.kind);
      }
      trace.addAgent(id, { name, model, toolCallId: spawned?.toolCallId });
    }
    for await (const page of readJournal(store, runId, { after: snapshot?.seq ?? 0, to: upTo })) {
      // Spans that these events end were exported when they happened.
      for (const event of page) trace.apply(event);
    }
  }

  #add(trace: RunTrace, events: readonly StoredEvent[]): void {
    const spans = events.flatMap((event) => trace.apply(event));
    if (spans.length > 0) this.#options.add(spans);
  }
}

const flushMs = 3_000;

export interface Tracing extends Publisher {
  /** Exports the remaining spans, for a few seconds at most. It never rejects. */
  stop(): Promise<void>;
}

export interface TracingOptions extends Pick<Engine, 'store' | 'log'> {
  readonly settings: TraceSettings | undefined;
  readonly node: string;
  readonly version: string;
}

const disabled: Tracing = { publish: () => undefined, stop: async () => undefined };

/** OpenTelemetry is loaded only if an endpoint is configured. */
export async function openTracing(options: TracingOptions): Promise<Tracing> {
  const { settings, store, log } = options;
  if (settings === undefined) return disabled;
  const { openExport } = await import('./span-export.ts');
  const spans = openExport(settings, options);
  const tracer = new Tracer({ store, log, add: spans.add });
  return {
    publish: (runId, events, tenantId) => tracer.publish(runId, events, tenantId),
    async stop() {
      const timeout = Promise.withResolvers<void>();
      const timer = setTimeout(timeout.resolve, flushMs);
      await Promise.race([tracer.settled().then(() => spans.flush()), timeout.promise]);
      clearTimeout(timer);
    },
  };
}
