/** A conversation of durable runs: it survives this process, its connection and the server. */
import type { RelayClient, Run, RunHandle, RunStreamEvent } from '@relay/sdk';
import { CliError, exitCodes } from '../errors.ts';
import { answerCommand } from '../output/transcript.ts';
import {
  type ApprovalRequest,
  type ChatClient,
  type ChatTurn,
  type Decision,
  requestFromApproval,
} from './client.ts';
import { decideApproval } from './decide.ts';

export interface DurableChatOptions {
  readonly client: RelayClient;
  readonly model: string | undefined;
  readonly agent: string | undefined;
  readonly conversationId: string | undefined;
  /** Shows a note about the connection or a decision. */
  readonly note: (line: string) => void;
}

export class DurableChatClient implements ChatClient {
  readonly #options: DurableChatOptions;
  #conversationId: string | undefined;
  #model: string | undefined;
  #agent: string | undefined;

  constructor(options: DurableChatOptions) {
    this.#options = options;
    this.#conversationId = options.conversationId;
    this.#model = options.model;
    this.#agent = options.agent;
  }

  get conversationId(): string | undefined {
    return this.#conversationId;
  }

  async send(message: string): Promise<ChatTurn> {
    const { client, note } = this.#options;
    const run = await client.runs.sendMessage(
      { message, model: this.#model, agent: this.#agent, conversationId: this.#conversationId },
      {
        onDisconnect: ({ attempt }) => attempt === 1 && note('(connection lost; trying again)'),
      },
    );
    this.#conversationId ??= (await client.runs.get(run.id)).conversationId;
    return new DurableTurn(client, run, note);
  }

  /** Earlier runs, oldest first. The chat continues with the last agent and model by default. */
  async history(limit: number): Promise<readonly Run[]> {
    const { client, conversationId } = this.#options;
    if (conversationId === undefined) return [];
    const page = await client.runs.list({ conversationId, limit }).page();
    const [last] = page.items;
    if (last === undefined) {
      throw new CliError('not_found', `No such conversation: ${conversationId}`, {
        exit: exitCodes.notFound,
      });
    }
    this.#agent ??= last.agent;
    this.#model ??= last.model;
    return page.items.toReversed();
  }

  /** Follows a run of the conversation that has not ended. */
  rejoin(run: Run): ChatTurn {
    const { client, note } = this.#options;
    return new DurableTurn(client, client.runs.stream(run.id), note);
  }
}

class DurableTurn implements ChatTurn {
  readonly #client: RelayClient;
  readonly #run: RunHandle;
  readonly #note: (line: string) => void;

  constructor(client: RelayClient, run: RunHandle, note: (line: string) => void) {
    this.#client = client;
    this.#run = run;
    this.#note = note;
  }

  [Symbol.asyncIterator](): AsyncIterator<RunStreamEvent> {
    return this.#run[Symbol.asyncIterator]();
  }

  async request({ id }: { readonly id: string }): Promise<ApprovalRequest | undefined> {
    const approval = await this.#client.approvals.get(id);
    return approval.status === 'pending' ? requestFromApproval(approval) : undefined;
  }

  async decide(request: ApprovalRequest, decision: Decision): Promise<string | undefined> {
    const result = await decideApproval(this.#client, request, decision);
    if ('problem' in result) return result.problem;
    if (result.note !== undefined) this.#note(result.note);
    return undefined;
  }

  async onUndecided({ id, kind }: ApprovalRequest): Promise<void> {
    this.#note(`Waiting for approval: ${answerCommand(kind, id)}`);
  }

  async cancel(): Promise<void> {
    await this.#run.cancel();
  }
}
