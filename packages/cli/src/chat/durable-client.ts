/** A conversation of durable runs: it survives this process, its connection and the server. */
import { randomUUID } from 'node:crypto';
import type {
  Agent,
  ChatMessageBody,
  RelayClient,
  Run,
  RunHandle,
  RunStreamEvent,
} from '@relay/sdk';
import { findAgent } from '../commands/agents/agents.ts';
import { CliError, exitCodes, isApiError, isRefused } from '../errors.ts';
import { answerCommand, loadDecisionText, waitsText } from '../output/decision-text.ts';

import {
  type ApprovalRequest,
  type ChatClient,
  type ChatTurn,
  type ConversationUsage,
  type Decision,
  type MessageContent,
  requestFromApproval,
  Unsent,
} from './client.ts';
import { decideApproval, unsentNote } from './decide.ts';
import { untilAvailable } from '../until-available.ts';
import { isUnpriced } from './usage-text.ts';
import { relay } from '../environment.ts';

export interface DurableChatOptions {
  readonly client: RelayClient;
  readonly model: string | undefined;
  readonly agent: string | undefined;
  /** Shows a note about the connection, if it has been lost or found again, or about a decision. */
  readonly note: (line: string, isConnected?: boolean) => void;
}

/** The end of a conversation. */
export interface History {
  readonly runs: readonly Run[];
  /** How many came before. */
  readonly earlier: number;
}

export class DurableChatClient implements ChatClient {
  readonly #options: DurableChatOptions;
  #conversationId: string | undefined;
  /** Of the conversation, if its stream was interrupted before it named the conversation. */
  #firstRunId: string | undefined;
  model: string | undefined;
  #agent: string | undefined;
  #isDisconnected = false;

  constructor(options: DurableChatOptions) {
    this.#options = options;
    this.model = options.model;
    this.#agent = options.agent;
  }

  readonly #follow = {
    onDisconnect: (): void => {
      if (!this.#isDisconnected) this.#options.note('(connection lost; trying again)', false);
      this.#isDisconnected = true;
    },
    onReconnect: (): void => {
      this.#isDisconnected = false;
      this.#options.note('(connected again)', true);
    },
  };

  get conversationId(): string | undefined {
    return this.#conversationId;
  }

  /** The agent of the next message. */
  agent(signal?: AbortSignal): Promise<Agent> {
    return findAgent(this.#options.client, this.#agent, signal);
  }

  /** It uses its own model, if it has one. */
  async setAgent(name: string): Promise<void> {
    await findAgent(this.#options.client, name);
    this.#agent = name;
    this.model = undefined;
  }

  startNew(): void {
    this.#conversationId = undefined;
    this.#firstRunId = undefined;
  }

  async send(
    message: MessageContent,
    { signal }: AbortController,
    withdrawn?: AbortSignal,
  ): Promise<ChatTurn> {
    const { client, note } = this.#options;
    const options = {
      ...this.#follow,
      idempotencyKey: randomUUID(),
      signal,
      // Otherwise only the failure of the last attempt would be known.
      maxRetries: withdrawn === undefined ? undefined : 0,
    };
    // The same in each attempt, whatever the server's default model is by then: the key is bound to it.
    let body: ChatMessageBody | undefined;
    let mayHaveArrived = false;
    const send = async () => {
      body ??= await this.#bodyOf(message, signal);
      withdrawn?.throwIfAborted();
      return client.runs.sendMessage(body, options).catch(async (error: unknown) => {
        mayHaveArrived ||= !isRefused(error);
        // Names the agent that may be meant.
        if (isApiError(error) && error.code === 'unknown_agent') await this.agent(signal);
        throw error;
      });
    };
    const run = await (withdrawn === undefined
      ? send()
      : untilAvailable(send, {
          signal: AbortSignal.any([signal, withdrawn]),
          onFailure: (reason) =>
            note(`(${reason}; your message is sent when the server accepts it)`, false),
        }).catch((error: unknown) => {
          throw error === withdrawn.reason ? new Unsent(withdrawnText(mayHaveArrived)) : error;
        }));
    this.#firstRunId ??= run.id;
    const onConversation = (id: string) => void (this.#conversationId ??= id);
    return new DurableTurn(client, run, { note, isJoined: false, onConversation });
  }

  async #bodyOf(message: MessageContent, signal: AbortSignal): Promise<ChatMessageBody> {
    const { client } = this.#options;
    if (this.#firstRunId !== undefined) {
      this.#conversationId ??= (await client.runs.get(this.#firstRunId, { signal })).conversationId;
    }
    return {
      message,
      agent: this.#agent,
      conversationId: this.#conversationId,
      model: this.model ?? (await this.#defaultModel(signal)),
    };
  }

  /**
   * Continues a conversation, with its last agent and model by default. Returns its last runs, oldest
   * first.
   */
  async resume(conversationId: string, limit: number): Promise<History> {
    const { client } = this.#options;
    const query = { conversationId, limit, count: 'true' } as const;
    const { items, total = items.length } = await client.runs.list(query).page();
    const [last] = items;
    if (last === undefined) {
      throw new CliError('not_found', `No such conversation: ${conversationId}`, {
        exit: exitCodes.notFound,
        hint: `"${relay} conversations list" shows them`,
      });
    }
    this.#conversationId = conversationId;
    this.#agent = this.#options.agent ?? last.agent;
    this.model = this.#options.model ?? last.model;
    // A list leaves out long texts.
    const isWhole = (run: Run) => !(run.inputTruncated ?? run.outputTruncated ?? false);
    const runs = await Promise.all(
      items.map(async (run) => (isWhole(run) ? run : client.runs.get(run.id))),
    );
    return { runs: runs.toReversed(), earlier: total - items.length };
  }

  /** Follows a run of the conversation that has not ended. */
  rejoin(run: Run, { signal }: AbortController): ChatTurn {
    const { client, note } = this.#options;
    const stream = client.runs.stream(run.id, { ...this.#follow, signal });
    return new DurableTurn(client, stream, { note, isJoined: true });
  }

  async usage(): Promise<ConversationUsage> {
    const conversationId = this.#conversationId;
    if (conversationId === undefined) return usageOf([]);
    const runs: Run[] = [];
    for await (const run of this.#options.client.runs.list({ conversationId, limit: 200 })) {
      runs.push(run);
    }
    return usageOf(runs);
  }

  /** An agent can have its own model. Otherwise `demo` works without any setup. */
  async #defaultModel(signal: AbortSignal): Promise<string | undefined> {
    const [{ model }, { defaultModel = 'demo' }] = await Promise.all([
      this.agent(signal),
      this.#options.client.models({ signal }),
    ]);
    return model === undefined ? defaultModel : undefined;
  }
}

function withdrawnText(mayHaveArrived: boolean): string {
  return mayHaveArrived
    ? `(your message is no longer sent, but the server may have received it: see "${relay} runs list")`
    : '(your message is withdrawn)';
}

function usageOf(runs: readonly Run[]): ConversationUsage {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
  const unpricedRuns = runs.filter(isUnpriced).length;
  const isUnknown = unpricedRuns > 0 && runs.every(({ costUsd }) => costUsd === undefined);
  return {
    runs: runs.length,
    inputTokens: sum(runs.map(({ usage }) => usage.input_tokens)),
    outputTokens: sum(runs.map(({ usage }) => usage.output_tokens)),
    costUsd: isUnknown ? undefined : sum(runs.map(({ costUsd = 0 }) => costUsd)),
    unpricedRuns,
  };
}

class DurableTurn implements ChatTurn {
  readonly #client: RelayClient;
  readonly #run: RunHandle;
  readonly #note: (line: string) => void;
  readonly #onConversation: ((id: string) => void) | undefined;
  readonly isJoined: boolean;

  constructor(
    client: RelayClient,
    run: RunHandle,
    {
      note,
      isJoined,
      onConversation,
    }: {
      readonly note: (line: string) => void;
      readonly isJoined: boolean;
      readonly onConversation?: (id: string) => void;
    },
  ) {
    this.#client = client;
    this.#run = run;
    this.#note = note;
    this.isJoined = isJoined;
    this.#onConversation = onConversation;
  }

  get runId(): string {
    return this.#run.id;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<RunStreamEvent> {
    for await (const event of this.#run) {
      if (event.type === 'run') this.#onConversation?.(event.conversationId);
      yield event;
    }
  }

  async request(
    { id }: { readonly id: string },
    signal: AbortSignal,
  ): Promise<ApprovalRequest | undefined> {
    const approval = await untilAvailable(() => this.#client.approvals.get(id), { signal });
    return approval.status === 'pending' ? requestFromApproval(approval) : undefined;
  }

  async decide(
    request: ApprovalRequest,
    decision: Decision,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const onFailure = (reason: string) => this.#note(`(${reason}; ${unsentNote})`);
    const send = () => decideApproval(this.#client, request, decision);
    const result = await untilAvailable(send, { signal, onFailure });
    if ('problem' in result) return result.problem;
    if (result.note !== undefined) this.#note(result.note);
    return undefined;
  }

  async onUndecided({ id, kind, tool }: ApprovalRequest): Promise<void> {
    this.#note(`${tool} ${waitsText[kind]}: ${answerCommand(kind, id)}`);
  }

  decision(id: string): Promise<string> {
    return loadDecisionText(this.#client, id);
  }

  async cancel(): Promise<void> {
    await this.#run.cancel();
  }

  async cost(): Promise<number | undefined> {
    return (await this.#client.runs.get(this.#run.id)).costUsd;
  }
}
