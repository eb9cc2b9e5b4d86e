/** What the chat needs from a server, with an API key (durable runs) or without (`/chat`). */
import { displayOf } from '@relay/protocol/display';
import type { Approval, DecisionBody, Message, RunStreamEvent } from '@relay/sdk';
import { votesText } from '../output/decision-text.ts';
import { escapeUnsafe } from '../output/escape.ts';

/** A text, or a text with attachments. */
export type MessageContent = Extract<Message, { role: 'user' }>['content'];

export interface ChatClient {
  /** Of the next message; undefined: the default of the agent or the server. */
  model: string | undefined;
  /**
   * Aborting `left` stops reading: the turn throws the reason. A durable run goes on. With `withdrawn` the message
   * of a durable run waits until the server can be reached; aborting that throws `Unsent`.
   */
  send(message: MessageContent, left: AbortController, withdrawn?: AbortSignal): Promise<ChatTurn>;
  /** The next message begins another conversation. */
  startNew(): void;
  /** The conversation that can be continued later. */
  readonly conversationId: string | undefined;
  /** What the conversation has used so far. */
  usage(): Promise<ConversationUsage>;
}

/** The message is no longer sent. */
export class Unsent extends Error {
  override readonly name = 'Unsent';
}

export interface ConversationUsage {
  readonly runs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of the runs whose cost is known; undefined if none is. */
  readonly costUsd: number | undefined;
  /** Runs whose cost is not known. */
  readonly unpricedRuns: number;
}

type ApprovalRequested = Extract<RunStreamEvent, { type: 'approval_requested' }>;

/** One message and the events of its run. */
export interface ChatTurn extends AsyncIterable<RunStreamEvent> {
  /** Unknown if the run ends with its connection. */
  readonly runId: string | undefined;
  /** It had begun before this chat followed it. */
  readonly isJoined: boolean;
  /** The details of an approval; undefined if it is no longer pending. */
  request(event: ApprovalRequested, signal: AbortSignal): Promise<ApprovalRequest | undefined>;
  /** Returns why the decision was rejected, if the user can correct it. */
  decide(
    request: ApprovalRequest,
    decision: Decision,
    signal: AbortSignal,
  ): Promise<string | undefined>;
  /** There is no user to decide, and the command goes on. */
  onUndecided(request: ApprovalRequest): Promise<void>;
  /** Who decided an approval, what and when; undefined if only this chat can decide it. */
  decision(id: string): Promise<string | undefined>;
  cancel(): Promise<void>;
  /** Of the run, after its end; undefined if its price is not known. */
  cost(): Promise<number | undefined>;
}

export type Decision = DecisionBody;

/** An approval as the prompt shows it. */
export interface ApprovalRequest {
  readonly id: string;
  readonly kind: Approval['kind'];
  readonly tool: string;
  readonly params: unknown;
  /** The call as text that is safe to show. */
  readonly text: string;
  /** Why the request must be read with care. */
  readonly flags: readonly string[];
  /** The requesting agent, preceded by the agents that spawned it. */
  readonly agents: readonly string[];
  /** Of the arguments as they are shown, which the decision is bound to. */
  readonly digest?: string | undefined;
  /** Whether a decision can carry other arguments, or the answer to a question. */
  readonly canEdit: boolean;
  /** What demands a person, whatever allows the call. */
  readonly rule?: Approval['rule'];
  readonly prompt?: string | undefined;
  readonly schema?: Approval['schema'];
  /** The arguments that the agent asked for, if another approver changed them. */
  readonly changedFrom?: Approval['params'] | undefined;
  /** How many persons have approved, where several must. */
  readonly votes?: string | undefined;
  /** Of the call whose outcome is unknown. */
  readonly idempotencyKey?: string | undefined;
}

/** Of the arguments that are shown: as another approver changed them, or as the agent asked. */
export function shownDigest({ executedDigest, digest }: Approval): string {
  return executedDigest ?? digest;
}

export function requestFromApproval(approval: Approval): ApprovalRequest {
  const { id, kind, tool, display, agentPath, prompt, schema, idempotencyKey } = approval;
  return {
    id,
    kind,
    tool,
    params: approval.executedParams ?? approval.params,
    digest: shownDigest(approval),
    // The server escapes it too, but a server is not trusted with the terminal.
    text: escapeUnsafe(display.text),
    flags: display.flags,
    agents: agentPath,
    canEdit: true,
    rule: approval.rule,
    prompt,
    schema,
    idempotencyKey,
    changedFrom: approval.executedParams === undefined ? undefined : approval.params,
    votes: (approval.quorum ?? 1) > 1 ? votesText(approval) : undefined,
  };
}

/** Without a key the approval cannot be loaded: the event is all there is. */
export function requestFromEvent(
  event: Pick<
    ApprovalRequested,
    'id' | 'kind' | 'tool' | 'params' | 'agentPath' | 'earlierDenial' | 'rule' | 'display'
  >,
): ApprovalRequest {
  const { id, kind, tool, params, agentPath = [] } = event;
  const display = event.display ?? displayOf(event);
  const text = escapeUnsafe(display.text);
  const flags = display.flags;
  const shared = { id, kind, tool, params, text, flags, agents: agentPath };
  return { ...shared, canEdit: false, rule: event.rule };
}
