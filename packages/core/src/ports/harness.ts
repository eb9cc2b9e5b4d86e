/**
 * What a harness is, for code in the same process: it creates sessions or attaches to them, and says of
 * each what it can do. Relay keeps the session's status, journal and deliveries.
 */
import type {
  AgentSessionCapabilities,
  AgentSessionEvent,
  BodyOf,
  DeliveryMode,
  SessionIdentity,
} from '@relay/protocol';
import type { SafeState } from '../sessions/modes.ts';
import type { TurnAnswer } from '../sessions/turn.ts';
import type { MessageRecord } from './sessions.ts';

/** What became of a message. */
export type Receipt =
  /** `inferred`: the harness concludes it, because the session does not report it. */
  | { readonly status: 'delivered' | 'consumed'; readonly fidelity?: 'inferred' }
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
  /** Its sender is an API key that may do what it asks for by itself: it has the scopes `runs` and `approve`. */
  readonly isFromApprover: boolean;
}

/** A call that needs permission. */
export interface PermissionRequest {
  /**
   * As rules name it. `bash {command, cwd?}`, `patch {filePath}`, `read {filePath}` and `fetch {url}` are judged
   * like those of Relay's own tools; relative paths start from the folder of the session.
   */
  readonly tool: string;
  readonly input: unknown;
  /** What the approver sees beside the call, such as its description. It is not part of what is approved. */
  readonly shown?: Readonly<Record<string, unknown>>;
  /** False: what the call would do is not known. Rules may deny it, but only a person allows it, once. Default: true. */
  readonly isConcrete?: boolean;
  /** False: the session cannot run it with changed arguments. Default: true. */
  readonly isEditable?: boolean;
  /** When it is aborted, the request is closed. */
  readonly signal?: AbortSignal;
}

export type PermissionAnswer =
  /** `input`: as it was requested or, with absolute paths, as the approver has changed it. */
  | { readonly allowed: true; readonly input: unknown }
  /**
   * `closed`: nobody has decided, because the request was aborted or the turn, the session or the server has
   * ended.
   */
  | {
      readonly allowed: false;
      readonly reason: string;
      readonly by: 'rule' | 'person' | 'closed' | 'expired';
    };

/** A question to a person. */
export interface HarnessQuestion {
  readonly message: string;
  /** The JSON Schema of the answer. Default: a text. */
  readonly schema?: Readonly<Record<string, unknown>>;
  /** When it is aborted, the question is closed. */
  readonly signal?: AbortSignal;
}

export type QuestionAnswer =
  /** `content` matches the schema. */
  | { readonly action: 'accept'; readonly content: unknown }
  /** `decline`: a person does not answer. `cancel`: the question was closed or has expired. */
  | { readonly action: 'decline' | 'cancel'; readonly reason: string };

/** A message that the session sends. */
export interface OutgoingMessage {
  /** `@handle` or `#channel`. Default with `replyTo`: the participants of the thread. */
  readonly to?: string | readonly string[];
  readonly text: string;
  readonly mode?: DeliveryMode;
  readonly attachments?: MessageRecord['attachments'];
  readonly replyTo?: string;
  readonly idempotencyKey?: string;
}

export interface HarnessContext {
  /** Aborted when the session has ended, or the server stops. */
  readonly signal: AbortSignal;
  /** For a message that `receiveMessage` has not settled. Rejects if another receipt has. */
  receipt(deliveryId: string, receipt: Receipt): Promise<void>;
  /**
   * Rules, policies and grants answer first; otherwise a person is asked, and the answer may take long. Until
   * then the session is `waiting`. The request is closed when the turn, the session or the server ends first.
   */
  requestPermission(request: PermissionRequest): Promise<PermissionAnswer>;
  /** The same for a question, which only a person answers. */
  ask(question: HarnessQuestion): Promise<QuestionAnswer>;
  /** Sends a message as the session, which declares `messaging.send`. Rejects as the API does. */
  send(message: OutgoingMessage): Promise<{ readonly id: string }>;
  /**
   * Sends the final answer of a turn as the reply to those of the messages that addressed the session, as a
   * native session does. Other agents' answers to what the session itself has asked get no reply.
   */
  reply(answer: TurnAnswer): Promise<void>;
  /** The session does what was not approved: an `error` event, and an entry of the audit trail. */
  reportBreach(breach: { readonly tool: string; readonly error: string }): Promise<void>;
  /** Keeps what `attach` needs after a restart: any JSON, at most 64 KB. */
  saveState(state: unknown): Promise<void>;
}

/** What is typed into a terminal, or its new size. */
export type TerminalInput = BodyOf<'inputSession'>;

/** The operations that a session implements if its capabilities declare them, and only then. */
export interface LifecycleMethods {
  release(): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** What a new session continues with, as any JSON. `seq`: as it was after this event. */
  fork(at: { readonly seq?: number }): Promise<unknown>;
  snapshot(): Promise<unknown>;
}

export interface HarnessSession extends Partial<LifecycleMethods> {
  readonly identity: SessionIdentity;
  /** Fixed until the session is attached again. */
  readonly capabilities: AgentSessionCapabilities;
  /**
   * One message at a time. What takes longer than 30 s is reported with `context.receipt`. `held`: the session
   * has it and no more is known, for example until its next turn begins.
   */
  receiveMessage(
    message: HarnessMessage,
    context: HarnessContext,
  ): Promise<Receipt | { readonly status: 'held' }>;
  /**
   * Returns a function that unsubscribes. The promise of the listener resolves when the event is stored: a
   * session that emits many waits for it. It never rejects.
   */
  onEvent(listener: (event: AgentSessionEvent) => Promise<void>): () => void;
  /** Stops the current turn; the session stays. */
  cancel?(): Promise<void>;
  /** Of a session with a terminal, which declares `terminal.output`. Resolves when it is typed. */
  input?(input: TerminalInput): Promise<void>;
  /**
   * Resolves when nothing of it runs any more. Called after `context.signal` is aborted: a server that stops waits
   * for it, for some seconds.
   */
  ended?(): Promise<void>;
}

export interface HarnessInput {
  readonly sessionId: string;
  readonly handle: string;
  readonly agent?: string;
  readonly model?: string;
  readonly labels: Readonly<Record<string, string>>;
  /** What `fork` or `snapshot` of another session of the harness has returned. */
  readonly from?: unknown;
  /** Given to a harness with `runsProcesses`, and only then. */
  readonly process?: HarnessProcess;
}

/** What the process of a session works with. */
export interface HarnessProcess {
  readonly tenantId: string;
  /** Only this tenant, which is the operator's own, may use the operator's home folder. */
  readonly isDefaultTenant: boolean;
  /** The folder that it works in, inside the tenant's workspace, as a real path. */
  readonly workspace: string;
  /** A home folder of its own, as a real path. It exists, and is removed with the session. */
  readonly home: string;
  /** Folders of Relay and of other tenants, which it must not see. They may contain `home`. */
  readonly hidden: () => readonly string[];
  /** The operator's limits for programs in a sandbox. Undefined: there is none, or it is switched off. */
  readonly sandbox?: HarnessSandbox;
  /**
   * Relay's own MCP server, for this session. The token works when the session is stored: not before Relay
   * calls `onEvent`. With each `create` and `attach` it is a new one, and the one before has ended.
   */
  readonly mcp: { readonly url: string; readonly token: string };
  /** The tenant's key for a model provider; undefined if there is none. */
  readonly credential: (provider: string) => Promise<HarnessCredential | undefined>;
}

export interface HarnessSandbox {
  readonly network: boolean;
  /** The most memory of one process. */
  readonly memoryBytes: number;
  readonly processes: number;
}

export interface HarnessCredential {
  readonly apiKey: string;
  /** Undefined: the provider's own. */
  readonly baseUrl?: string;
}

export interface Harness {
  readonly name: string;
  /** The statuses in which a session can be given a new turn. Default: idle. */
  readonly safeStates?: readonly SafeState[];
  /** False: consumption cannot be observed, and deliveries end as `delivered`. Default: true. */
  readonly observesConsumption?: boolean;
  /**
   * Its sessions are programs, such as coding agents. They are created with the scopes `runs` and `approve`, in
   * a workspace, and get `input.process`. A new one is `starting` until it reports another status. Default: false.
   */
  readonly runsProcesses?: boolean;
  create(input: HarnessInput, context: HarnessContext): Promise<HarnessSession>;
  /** After a restart. A session of a harness without it is then offline. */
  attach?(
    session: HarnessInput & { readonly state: unknown },
    context: HarnessContext,
  ): Promise<HarnessSession>;
}
