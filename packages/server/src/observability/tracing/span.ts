/**
 * Spans as data. Every id follows from ids that the journal holds, and so do most times, because our
 * ids begin with the moment they were made: whichever node ends a thing can tell all of its span.
 */
import { createHash } from 'node:crypto';

type Value = string | number | boolean | readonly string[];
export type Attributes = Readonly<Record<string, Value | undefined>>;

export interface Span {
  readonly runId: string;
  readonly id: string;
  /** Left out: the first span of the trace. */
  readonly parentId?: string;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** What it failed of, as a code; never a sentence, which could repeat what somebody has said. */
  readonly error?: string;
  readonly link?: { readonly traceId: string; readonly spanId: string };
}

/** A run has one trace, on all nodes and after every restart. */
export function traceIdOf(runId: string): string {
  return runId.replaceAll('-', '');
}

export function spanIdOf(...parts: readonly (string | number)[]): string {
  const digest = createHash('sha256').update(JSON.stringify(parts)).digest('hex');
  const id = digest.slice(0, 16);
  // All zeros would mean that there is none.
  return /[^0]/.test(id) ? id : digest.slice(16, 32);
}

/** The moment in which one of our ids was made. */
export function madeAt(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** Names and ids are shown as far as they are such: a model can call a tool by a sentence. */
export function nameOrNothing(text: string | undefined): string | undefined {
  return text !== undefined && /^[\w.:~/@+-]{1,128}$/.test(text) ? text : undefined;
}

const form = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** A W3C `traceparent` that names a span; anything else is none. */
export function parseTraceparent(
  header: string | readonly string[] | undefined,
): { traceId: string; spanId: string } | undefined {
  const [, traceId = '', spanId = ''] = typeof header === 'string' ? (form.exec(header) ?? []) : [];
  return /[^0]/.test(traceId) && /[^0]/.test(spanId) ? { traceId, spanId } : undefined;
}
