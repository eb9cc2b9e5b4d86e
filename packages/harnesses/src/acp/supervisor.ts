/** Keeps one agent running. */
import type { InitializeResponse } from '@agentclientprotocol/sdk';
import type { Clock } from '@relay/core';
import type { AgentClient, AgentConnection } from './connection.ts';

export interface AgentSupervisorOptions {
  /** Starts the process and initializes the connection. */
  readonly connect: (client: AgentClient, signal: AbortSignal) => Promise<AgentConnection>;
  readonly client: AgentClient;
  /**
   * Creates, resumes or loads the ACP session, before anything else uses the connection. If it rejects, the
   * connection is closed; at the first time the agent has failed.
   */
  readonly onConnected: (connection: AgentConnection) => Promise<void>;
  /** A connection that `onConnected` had succeeded for is closed, and not by `stop` or because it was idle. */
  readonly onLost: (reason: string) => void;
  /** It is not started again. */
  readonly onFailed: (reason: string) => void;
  /** Whether the ACP session survives its process. */
  readonly canResume: () => boolean;
  /** No turn, no open request, nothing queued. */
  readonly isIdle: () => boolean;
  readonly clock: Clock;
}

export interface AgentSupervising {
  /** Starts the first process, without `onConnected`. Rejects with the reason. */
  start(): Promise<InitializeResponse>;
  /** The connection, for which `onConnected` has succeeded; starts a process if there is none. Rejects if the agent failed. */
  connection(): Promise<AgentConnection>;
  /** Ends the process for good. */
  stop(): Promise<void>;
}
