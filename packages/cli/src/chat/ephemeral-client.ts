/** A chat without a key, on the server's machine: it ends with its connection and is kept here only. */
import { randomUUID } from 'node:crypto';
import type { Chat, ChatEvent, Message, RelayClient, RunResult, RunStreamEvent } from '@relay/sdk';
import {
  type ApprovalRequest,
  type ChatClient,
  type ChatTurn,
  type ConversationUsage,
  type Decision,
  type MessageContent,
  requestFromEvent,
} from './client.ts';

export interface EphemeralChatOptions {
  readonly client: RelayClient;
  readonly model: string | undefined;
}

export class EphemeralChatClient implements ChatClient {
  readonly conversationId = undefined;
  model: string | undefined;
  readonly #client: RelayClient;
  #messages: Message[] = [];
  #usage = { runs: 0, ...noUsage };
  /** "Always" applies to this conversation. */
  #ownConversationId = randomUUID();

  constructor({ client, model }: EphemeralChatOptions) {
    this.#client = client;
    this.model = model;
  }

  startNew(): void {
    this.#messages = [];
    this.#usage = { runs: 0, ...noUsage };
    this.#ownConversationId = randomUUID();
  }

  async usage(): Promise<ConversationUsage> {
    return { ...this.#usage, costUsd: undefined, unpricedRuns: this.#usage.runs };
  }

  async send(message: MessageContent, connection: AbortController): Promise<ChatTurn> {
    const messages: Message[] = [...this.#messages, { role: 'user', content: message }];
    const { signal } = connection;
    const chat = await this.#client.chat(
      {
        messages,
        conversationId: this.#ownConversationId,
        model: this.model ?? (await this.#client.models({ signal })).defaultModel ?? 'demo',
      },
      { signal },
    );
    return new EphemeralTurn(chat, connection, ({ output, usage }) => {
      const { runs, inputTokens, outputTokens } = this.#usage;
      this.#usage = {
        runs: runs + 1,
        inputTokens: inputTokens + usage.inputTokens,
        outputTokens: outputTokens + usage.outputTokens,
      };
      this.#messages = [...messages, { role: 'assistant', content: output }];
    });
  }
}

type Done = Extract<RunStreamEvent, { type: 'done' }>;

/** Closing the connection is how such a run is canceled. */
class Canceled extends Error {}

class EphemeralTurn implements ChatTurn {
  readonly #chat: Chat;
  readonly #connection: AbortController;
  readonly runId = undefined;
  readonly isJoined = false;
  readonly #remember: (done: Pick<Done, 'output' | 'usage'>) => void;

  constructor(
    chat: Chat,
    connection: AbortController,
    remember: (done: Pick<Done, 'output' | 'usage'>) => void,
  ) {
    this.#chat = chat;
    this.#connection = connection;
    this.#remember = remember;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<RunStreamEvent, void> {
    let seq = 0;
    let failed: RunStreamEvent | undefined;
    const answer = new Map<string, string>();
    try {
      for await (const frame of this.#chat) {
        const event = eventOf(frame, answer);
        if (event === undefined) continue;
        seq += 1;
        if (event.type === 'done') this.#remember(event);
        if (event.type === 'error') failed = { ...event, seq };
        yield { ...event, seq };
      }
    } catch (error) {
      if (!(this.#connection.signal.reason instanceof Canceled)) throw error;
      if (failed === undefined) yield { ...doneEvent('canceled', '', noUsage), seq: seq + 1 };
    }
  }

  async request(event: Parameters<typeof requestFromEvent>[0]): Promise<ApprovalRequest> {
    return requestFromEvent(event);
  }

  async decide({ id }: ApprovalRequest, decision: Decision): Promise<string | undefined> {
    const { approved, outcome, output, always, reason } = decision;
    try {
      if (outcome !== undefined) await this.#chat.answer(id, { outcome, output, reason });
      else if (approved === true) await this.#chat.answer(id, { approved, always });
      else await this.#chat.answer(id, { approved: false, reason });
    } catch (error) {
      if ((error as { code?: string }).code !== 'relay_not_found') throw error;
    }
    return undefined;
  }

  /** No other approver has access to this chat, so that it would wait forever. */
  async onUndecided(request: ApprovalRequest): Promise<void> {
    await this.decide(request, { approved: false, reason: 'No approver is available' });
  }

  async decision(): Promise<undefined> {}

  async cancel(): Promise<void> {
    this.#connection.abort(new Canceled());
  }

  async cost(): Promise<undefined> {}
}

type Unnumbered = RunStreamEvent extends infer Event
  ? Event extends unknown
    ? Omit<Event, 'seq'>
    : never
  : never;

const noUsage = { inputTokens: 0, outputTokens: 0 };

function doneEvent(
  status: 'completed' | 'failed' | 'canceled',
  output: string,
  usage: { readonly inputTokens: number; readonly outputTokens: number },
  ended: Pick<RunResult, 'finishReason'> = {},
) {
  return { type: 'done', status, output, usage, ...ended } as const;
}

/** A frame of `/chat` as an event of a run; `answer` collects the text of the root agent. */
function eventOf(frame: ChatEvent, answer: Map<string, string>): Unnumbered | undefined {
  switch (frame.type) {
    case 'text':
      if (frame.parentId !== undefined) return undefined;
      answer.set(frame.id, (answer.get(frame.id) ?? '') + frame.content);
      return { type: 'token', text: frame.content };
    case 'text_discard':
      answer.delete(frame.id);
      return { type: 'reset', after: 0 };
    case 'tool_call':
      return { type: 'tool_call', id: frame.id, name: frame.name, input: frame.input };
    case 'tool_result': {
      const { output, rule } = frame;
      return {
        type: 'tool_result',
        id: frame.id,
        output: output.result ?? output.context ?? output,
        rule,
      };
    }
    case 'relay':
      return { ...frame, type: 'approval_requested' };
    case 'relay_resolved': {
      const { id, status, executedParams } = frame;
      return { type: 'approval_resolved', id, status, executedParams };
    }
    case 'error':
      return { type: 'error', error: frame.message, code: frame.code, retryable: false };
    case 'harness_end':
      if (frame.parentId !== undefined) return undefined;
      return doneEvent(
        frame.reason === 'limit' ? 'completed' : frame.reason,
        [...answer.values()].join('\n'),
        frame.totalUsage,
        frame.finishReason === undefined ? {} : { finishReason: frame.finishReason },
      );
    case 'connected':
    case 'harness_start':
    case 'reasoning':
    case 'tool_progress':
    case 'usage':
      return undefined;
  }
}
