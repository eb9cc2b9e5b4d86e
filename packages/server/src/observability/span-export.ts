/**
 * Exports spans to a collector with OpenTelemetry's exporter, which handles batches, a bounded queue
 * and retries. If the collector does not answer, spans are lost and nothing else.
 */
import { SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace';
import type { Log } from '@relay/core';
import { defined } from '@relay/protocol';
import type { TraceSettings } from '../config/config.ts';
import { type Span, traceIdOf } from './run-trace.ts';

const warnIntervalMs = 60_000;
const kinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
} as const;

export interface SpanExport {
  /** Queues spans; never throws or blocks. */
  readonly add: (spans: readonly Span[]) => void;
  /** Sends the queue. It never rejects. */
  flush(): Promise<void>;
}

export interface SpanExportOptions {
  readonly version: string;
  readonly node: string;
  readonly log: Log;
  /** How long spans may wait for a batch. */
  readonly delayMs?: number;
}

export function openExport(settings: TraceSettings, options: SpanExportOptions): SpanExport {
  const { version, node, log, delayMs = 1_000 } = options;
  const resource = resourceFromAttributes({
    ...settings.resource,
    'service.name': settings.serviceName,
    'service.version': version,
    'service.instance.id': node,
  });
  const scope = { name: 'relay', version };
  const exporter = new OTLPTraceExporter({ url: settings.url, headers: settings.headers });
  const processor = new BatchSpanProcessor({
    exporter: withWarnings(exporter, log),
    scheduledDelayMillis: delayMs,
    maxQueueSize: 8_192,
  });
  return {
    add(spans) {
      for (const span of spans) processor.onEnd(toReadableSpan(span, resource, scope));
    },
    flush: () => processor.shutdown().catch(() => undefined),
  };
}

/** Warns about lost spans at intervals. Does not log the collector's response. */
function withWarnings(exporter: SpanExporter, log: Log): SpanExporter {
  let lost = 0;
  let warnedAt = -warnIntervalMs;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        done(result);
        if (result.error === undefined) return;
        lost += spans.length;
        if (performance.now() - warnedAt < warnIntervalMs) return;
        warnedAt = performance.now();
        log.warn('Traces could not be exported', { spans: lost, reason: reasonOf(result.error) });
        lost = 0;
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}

function reasonOf(error: Error): string {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' || typeof code === 'number' ? String(code) : error.name;
}

function toReadableSpan(
  span: Span,
  resource: Resource,
  scope: { name: string; version: string },
): ReadableSpan {
  const { name, startMs, endMs, error, link, parentId } = span;
  const contextOf = (traceId: string, spanId: string) => ({
    traceId,
    spanId,
    traceFlags: TraceFlags.SAMPLED,
  });
  const traceId = traceIdOf(span.runId);
  const context = contextOf(traceId, span.id);
  return {
    name,
    kind: kinds[span.kind],
    spanContext: () => context,
    ...(parentId === undefined ? {} : { parentSpanContext: contextOf(traceId, parentId) }),
    startTime: hrTime(startMs),
    endTime: hrTime(endMs),
    duration: hrTime(endMs - startMs),
    status: { code: error === undefined ? SpanStatusCode.UNSET : SpanStatusCode.ERROR },
    attributes: defined({ ...span.attributes, 'error.type': error }),
    links: link === undefined ? [] : [{ context: { ...contextOf(link.traceId, link.spanId) } }],
    events: [],
    ended: true,
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function hrTime(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
