/**
 * What a harness is, for code in the same process: it creates sessions or attaches to them, and says of
 * each what it can do. Relay keeps the session's status, journal and deliveries.
 */
import type { AgentSessionCapabilities, AgentSessionEvent, SessionIdentity } from '@relay/protocol';
import type { SafeState } from '../sessions/modes.ts';
import type { MessageRecord } from './sessions.ts';

/** What became of a message. */
export type Receipt =
  | { readonly status: 'delivered' | 'consumed' }
  | { readonly status: 'deferred'; readonly availableAt?: Date | string; readonly reason?: string }
  | { readonly status: 'failed'; readonly reason: string; readonly retryable?: boolean };

export interface HarnessMessage extends Pick<
  MessageRecord,
  'id' | 'to' | 'text' | 'attachments' | 'replyTo' | 'from'
> {
  readonly deliveryId: string;
}

/** What a session asks a person for. */
export interface PermissionRequest {
  readonly tool: string;
  readonly input: unknown;
}

export interface PermissionAnswer {
  readonly approved: boolean;
  readonly reason?: string;
}

export interface HarnessContext {
  /** Aborted when the session is released or the server stops. */
  readonly signal: AbortSignal;
  /** For a message that `receiveMessage` has not settled. */
  receipt(deliveryId: string, receipt: Receipt): Promise<void>;
  /** Resolves with the answer of a person or of a rule. */
  requestPermission(request: PermissionRequest): Promise<PermissionAnswer>;
}

/** The operations that a session implements if its capabilities declare them. */
export interface LifecycleMethods {
  release(): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** What a new session continues with, as any JSON. */
  fork(): Promise<unknown>;
  snapshot(): Promise<unknown>;
}

export interface HarnessSession extends Partial<LifecycleMethods> {
  readonly identity: SessionIdentity;
  /** Fixed until the session is attached again. */
  readonly capabilities: AgentSessionCapabilities;
  receiveMessage(message: HarnessMessage, context: HarnessContext): Promise<Receipt>;
  /** Returns a function that unsubscribes. */
  onEvent(listener: (event: AgentSessionEvent) => void): () => void;
}

export interface HarnessInput {
  readonly sessionId: string;
  readonly handle: string;
  readonly agent?: string;
  readonly model?: string;
  /** The folder that the session works in. */
  readonly workspace?: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Of the snapshot that the session continues with. */
  readonly snapshot?: unknown;
}

export interface Harness {
  readonly name: string;
  /** The statuses in which a session can be given a new turn. Default: idle. */
  readonly safeStates?: readonly SafeState[];
  create(input: HarnessInput, context: HarnessContext): Promise<HarnessSession>;
  /** After a restart. A session of a harness without it is then offline. */
  attach?(
    session: { readonly sessionId: string; readonly state: unknown },
    context: HarnessContext,
  ): Promise<HarnessSession>;
}
