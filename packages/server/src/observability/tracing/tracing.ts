/** Traces of runs, where an endpoint is configured; otherwise nothing of it is even loaded. */
import type { Log, Publisher, SystemStore } from '@relay/core';
import type { TraceSettings } from './settings.ts';

const flushMs = 3_000;

export interface Tracing extends Publisher {
  /** Sends what is left, for a few seconds at most. It never rejects. */
  stop(): Promise<void>;
}

export interface TracedServer {
  readonly settings: TraceSettings | undefined;
  readonly store: SystemStore;
  readonly log: Log;
  readonly node: string;
  readonly version: string;
}

const nowhere: Tracing = { publish: () => undefined, stop: async () => undefined };

export async function openTracing(server: TracedServer): Promise<Tracing> {
  const { settings, store, log } = server;
  if (settings === undefined) return nowhere;
  const [{ openExport }, { Tracer }] = await Promise.all([
    import('./export.ts'),
    import('./tracer.ts'),
  ]);
  const spans = openExport(settings, server);
  const tracer = new Tracer({ store, log, tell: spans.tell });
  return {
    publish: (runId, events, tenantId) => tracer.publish(runId, events, tenantId),
    async stop() {
      let timer: NodeJS.Timeout | undefined;
      const patience = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, flushMs);
      });
      await Promise.race([tracer.settled().then(() => spans.flush()), patience]);
      clearTimeout(timer);
    },
  };
}
