/**
 * Spans on their way to a collector, by OpenTelemetry's own exporter: batches, a bounded queue, and
 * retries are its business. A collector that does not answer costs spans and nothing else.
 */
import { SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace';
import type { Log } from '@relay/core';
import type { TraceSettings } from './settings.ts';
import { type Span, traceIdOf } from './span.ts';

const complainEveryMs = 60_000;
const kinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
} as const;

export interface SpanExport {
  /** Takes spans in; it neither throws nor waits. */
  readonly tell: (spans: readonly Span[]) => void;
  /** Sends what is left. It never rejects. */
  flush(): Promise<void>;
}

export interface Exported {
  readonly version: string;
  readonly node: string;
  readonly log: Log;
  /** How long spans may wait for others to travel with. */
  readonly delayMs?: number;
}

export function openExport(settings: TraceSettings, options: Exported): SpanExport {
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
    exporter: complaining(exporter, log),
    scheduledDelayMillis: delayMs,
    maxQueueSize: 8_192,
  });
  return {
    tell(spans) {
      for (const span of spans) processor.onEnd(readable(span, resource, scope));
    },
    flush: () => processor.shutdown().catch(() => undefined),
  };
}

/** Says that spans are lost, now and then, and not what the collector has answered. */
function complaining(exporter: SpanExporter, log: Log): SpanExporter {
  let lost = 0;
  let complainedAt = -complainEveryMs;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        done(result);
        if (result.error === undefined) return;
        lost += spans.length;
        if (performance.now() - complainedAt < complainEveryMs) return;
        complainedAt = performance.now();
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

function readable(
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
  const attributes = Object.entries(span.attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, value] as const],
  );
  return {
    name,
    kind: kinds[span.kind],
    spanContext: () => context,
    ...(parentId === undefined ? {} : { parentSpanContext: contextOf(traceId, parentId) }),
    startTime: hrTime(startMs),
    endTime: hrTime(endMs),
    duration: hrTime(endMs - startMs),
    status: { code: error === undefined ? SpanStatusCode.UNSET : SpanStatusCode.ERROR },
    attributes: {
      ...(Object.fromEntries(attributes) as ReadableSpan['attributes']),
      ...(error === undefined ? {} : { 'error.type': error }),
    },
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
