import type { StoredEvent } from '../events/catalogue.ts';

/** What stays the same throughout a run and that frames may show. */
export interface RunHeader {
  readonly runId: string;
  readonly conversationId: string;
  readonly correlationId: string;
}

/** The JSON of one frame. */
export interface Frame {
  readonly type: string;
  readonly [field: string]: unknown;
}

/**
 * A surface's words for the journal: a pure function, so that a stream can be picked up at any
 * `seq` on any node. One event becomes at most one frame.
 */
export interface Dialect {
  readonly name: string;
  /** Whether the frame's type also goes into the SSE `event:` field. */
  readonly namesEvents: boolean;
  project(event: StoredEvent, run: RunHeader): Frame | undefined;
}
