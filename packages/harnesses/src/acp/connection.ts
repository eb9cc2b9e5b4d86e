/** A connection to an agent that speaks ACP. */
import type {
  ClientContext,
  CreateElicitationRequest,
  CreateElicitationResponse,
  InitializeResponse,
  RequestPermissionRequest,
  RequestPermissionResponse,
  SessionNotification,
} from '@agentclientprotocol/sdk';

/** What the agent may ask of Relay, and report. */
export interface AgentClient {
  /**
   * The ACP session, from before `session/resume` or `session/load` is requested, or after the answer to
   * `session/new`. Updates of other sessions are ignored, and requests are answered with an error.
   */
  readonly sessionId: string | undefined;
  /** Awaited: nothing further of the agent is read before, also no answer to a request. */
  update(update: SessionNotification['update']): Promise<void>;
  /** `signal`: the agent has withdrawn the request, or the connection is closed. */
  requestPermission(
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse>;
  elicit(
    request: CreateElicitationRequest,
    signal: AbortSignal,
  ): Promise<CreateElicitationResponse>;
}

export interface AgentConnection {
  readonly initialized: InitializeResponse;
  /** Typed requests and notifications: `agent.request('session/prompt', …)`. */
  readonly agent: ClientContext;
  /** Resolves when the connection and the process have ended, with the reason for people. */
  readonly closed: Promise<{ readonly reason: string }>;
  /** When the agent was last sent something, or sent something itself. */
  readonly lastActiveAt: number;
  /** Ends the process, too. */
  close(): Promise<void>;
}
