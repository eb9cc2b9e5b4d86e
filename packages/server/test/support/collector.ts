/** An OpenTelemetry collector that records what it receives. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SeenSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly failed: boolean;
  readonly links: readonly { traceId: string; spanId: string }[];
  readonly resource: Readonly<Record<string, unknown>>;
}

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values: readonly Value[] };
}
type Pairs = readonly { readonly key: string; readonly value: Value }[];

interface Sent {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Pairs };
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[];
  }[];
}

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Pairs;
  readonly status: { readonly code?: number };
  readonly links?: readonly { traceId: string; spanId: string }[];
}

export interface Collector {
  readonly url: string;
  readonly requests: { path: string; headers: IncomingHttpHeaders; body: string }[];
  readonly spans: SeenSpan[];
  /** The status of its next responses. */
  answer: number | 'never';
  close(): Promise<void>;
}

export async function openCollector(): Promise<Collector> {
  const requests: Collector['requests'] = [];
  const spans: SeenSpan[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      requests.push({ path: request.url ?? '', headers: request.headers, body });
      if (collector.answer === 'never') return;
      if (collector.answer === 200) spans.push(...spansOf(JSON.parse(body) as Sent));
      response.writeHead(collector.answer, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    spans,
    answer: 200,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return collector;
}

function spansOf(sent: Sent): SeenSpan[] {
  return sent.resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        ...(span.parentSpanId === undefined ? {} : { parentSpanId: span.parentSpanId }),
        name: span.name,
        kind: span.kind,
        startMs: Number(BigInt(span.startTimeUnixNano) / 1_000_000n),
        endMs: Number(BigInt(span.endTimeUnixNano) / 1_000_000n),
        attributes: recordOf(span.attributes),
        failed: span.status.code === 2,
        links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId, spanId })),
        resource: recordOf(resource.attributes),
      })),
    ),
  );
}

function recordOf(pairs: Pairs): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, valueOf(value)]));
}

function valueOf(value: Value): unknown {
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(valueOf);
  const number = value.intValue ?? value.doubleValue;
  return number === undefined ? (value.stringValue ?? value.boolValue) : Number(number);
}
