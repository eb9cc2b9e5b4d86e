/** A conversation of durable runs: it outlives this terminal, its connection and the server. */
import type { RelayClient, Run, RunHandle, RunStreamEvent } from '@relay/sdk';
import { CliError, exitCodes } from '../failures.ts';
import type { Partner, Turn } from './partner.ts';
import { type Decision, type Request, requestOf } from './request.ts';

export interface KeyedOptions {
  readonly client: RelayClient;
  readonly model: string | undefined;
  readonly agent: string | undefined;
  readonly conversationId: string | undefined;
  /** EventBuffer what one should know about the connection. */
  readonly note: (line: string) => void;
}

export class KeyedPartner implements Partner {
  readonly #options: KeyedOptions;
  #conversationId: string | undefined;
  #model: string | undefined;
  #agent: string | undefined;

  constructor(options: KeyedOptions) {
    this.#options = options;
    this.#conversationId = options.conversationId;
    this.#model = options.model;
    this.#agent = options.agent;
  }

  get resumeWith(): string | undefined {
    return this.#conversationId;
  }

  async say(message: string): Promise<Turn> {
    const { client, note } = this.#options;
    const [model, agent, conversationId] = [this.#model, this.#agent, this.#conversationId];
    const run = await client.runs.converse(
      {
        message,
        ...(model === undefined ? {} : { model }),
        ...(agent === undefined ? {} : { agent }),
        ...(conversationId === undefined ? {} : { conversationId }),
      },
      {
        onDisconnect: ({ attempt }) =>
          attempt === 1 && note('(the connection broke; trying again)'),
      },
    );
    this.#conversationId ??= (await client.runs.get(run.id)).conversationId;
    return new KeyedTurn(client, run, note);
  }

  /** What was said before, oldest first. It goes on with whom it ended, unless another was named. */
  async history(limit: number): Promise<readonly Run[]> {
    const { client, conversationId } = this.#options;
    if (conversationId === undefined) return [];
    const page = await client.runs.list({ conversationId, limit }).page();
    const [last] = page.items;
    if (last === undefined) {
      throw new CliError('not_found', `There is no conversation ${conversationId}`, {
        exit: exitCodes.notFound,
      });
    }
    this.#agent ??= last.agent;
    this.#model ??= last.model;
    return page.items.toReversed();
  }

  /** A turn that was left behind and still goes on, or waits. */
  rejoin(run: Run): Turn {
    const { client, note } = this.#options;
    return new KeyedTurn(client, client.runs.stream(run.id), note);
  }
}

class KeyedTurn implements Turn {
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

  async request({ id }: { readonly id: string }): Promise<Request | undefined> {
    const approval = await this.#client.approvals.get(id);
    return approval.status === 'pending' ? requestOf(approval) : undefined;
  }

  async answer({ id }: Request, decision: Decision): Promise<string | undefined> {
    try {
      await this.#client.approvals.decide(id, decision);
      return undefined;
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      // Somebody else was faster.
      if (code === 'approval_conflict') return undefined;
      if (code === 'scope_required') {
        this.#note(`This key may not decide; it waits for somebody else (approval ${id}).`);
        return undefined;
      }
      const mendable = [
        'tool_input_invalid',
        'denied_by_rule',
        'tool_unavailable',
        'invalid_request',
      ];
      if (code !== undefined && mendable.includes(code)) return `  ${message} [${code}]`;
      throw error;
    }
  }

  async leaveOpen({ id }: Request): Promise<void> {
    this.#note(`It waits for a person: relay approvals approve ${id}`);
  }

  async cancel(): Promise<void> {
    await this.#run.cancel();
  }
}
