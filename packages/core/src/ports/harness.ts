/**
 * What a harness is, for code in the same process: it creates sessions or attaches to them, and says of
 * each what it can do. Relay keeps the session's status, journal and deliveries.
 */
import type {
  AgentSessionCapabilities,
  AgentSessionEvent,
  DeliveryMode,
  SessionIdentity,
} from '@relay/protocol';
import type { SafeState } from '../sessions/modes.ts';
import type { MessageRecord } from './sessions.ts';

/** What became of a message. */
export type Receipt =
  | { readonly status: 'delivered' | 'consumed' }
  /** Without `availableAt` the message is handed over again after a few seconds. */
  | { readonly status: 'deferred'; readonly availableAt?: Date | string; readonly reason?: string }
  | { readonly status: 'failed'; readonly reason: string; readonly retryable?: boolean };

export interface HarnessMessage extends Pick<
  MessageRecord,
  'id' | 'to' | 'text' | 'attachments' | 'replyTo' | 'from'
> {
  readonly deliveryId: string;
  readonly mode: DeliveryMode;
  /** It was handed over before, and it is not known to be consumed. */
  readonly redelivered: boolean;
}

export interface HarnessContext {
  /** Aborted when the session has ended, or the server stops. */
  readonly signal: AbortSignal;
  /** For a message that `receiveMessage` has not settled. Rejects if another receipt has. */
  receipt(deliveryId: string, receipt: Receipt): Promise<void>;
  /** Keeps what `attach` needs after a restart: any JSON, at most 64 KB. */
  saveState(state: unknown): Promise<void>;
}

/** The operations that a session implements if its capabilities declare them, and only then. */
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
  /** One message at a time. What takes longer than 30 s is reported with `context.receipt`. */
  receiveMessage(message: HarnessMessage, context: HarnessContext): Promise<Receipt>;
  /**
   * Returns a function that unsubscribes. The promise of the listener resolves when the event is stored: a
   * session that emits many waits for it. It never rejects.
   */
  onEvent(listener: (event: AgentSessionEvent) => Promise<void>): () => void;
  /** Stops the current turn; the session stays. */
  cancel?(): Promise<void>;
}

export interface HarnessInput {
  readonly sessionId: string;
  readonly handle: string;
  readonly agent?: string;
  readonly model?: string;
  readonly labels: Readonly<Record<string, string>>;
}

export interface Harness {
  readonly name: string;
  /** The statuses in which a session can be given a new turn. Default: idle. */
  readonly safeStates?: readonly SafeState[];
  create(input: HarnessInput, context: HarnessContext): Promise<HarnessSession>;
  /** After a restart. A session of a harness without it is then offline. */
  attach?(
    session: HarnessInput & { readonly state: unknown },
    context: HarnessContext,
  ): Promise<HarnessSession>;
}
