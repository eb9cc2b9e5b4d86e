/** A chat without a key, on the server's own machine: it lives with its connection, and is kept here. */
import { randomUUID } from 'node:crypto';
import type { Chat, ChatEvent, Message, RelayClient, RunStreamEvent } from '@relay/sdk';
import type { Partner, Turn } from './partner.ts';
import { type Decision, plainRequest, type ApprovalLike, type Request } from './request.ts';

export interface KeylessOptions {
  readonly client: RelayClient;
  readonly model: string | undefined;
}

export class KeylessPartner implements Partner {
  readonly resumeWith = undefined;
  readonly #options: KeylessOptions;
  readonly #messages: Message[] = [];
  /** So that "always" holds for the whole chat. */
  readonly #conversationId = randomUUID();

  constructor(options: KeylessOptions) {
    this.#options = options;
  }

  async say(message: string): Promise<Turn> {
    const { client, model } = this.#options;
    const messages: Message[] = [...this.#messages, { role: 'user', content: message }];
    const left = new AbortController();
    const chat = await client.chat(
      { messages, conversationId: this.#conversationId, ...(model === undefined ? {} : { model }) },
      { signal: left.signal },
    );
    return new KeylessTurn(chat, left, (text) => {
      this.#messages.push({ role: 'user', content: message }, { role: 'assistant', content: text });
    });
  }
}

class KeylessTurn implements Turn {
  readonly #chat: Chat;
  readonly #left: AbortController;
  readonly #remember: (text: string) => void;

  constructor(chat: Chat, left: AbortController, remember: (text: string) => void) {
    this.#chat = chat;
    this.#left = left;
    this.#remember = remember;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<RunStreamEvent, void> {
    let seq = 0;
    let failed: RunStreamEvent | undefined;
    const said = new Map<string, string>();
    try {
      for await (const frame of this.#chat) {
        const event = eventOf(frame, said);
        if (event === undefined) continue;
        seq += 1;
        if (event.type === 'done') this.#remember(event.output);
        if (event.type === 'error') failed = { ...event, seq };
        yield { ...event, seq };
      }
    } catch (error) {
      // Hanging up is how such a run is canceled.
      if (!this.#left.signal.aborted) throw error;
      if (failed === undefined) yield { ...ended('canceled', '', nothing), seq: seq + 1 };
    }
  }

  async request(event: ApprovalLike): Promise<Request> {
    return plainRequest(event);
  }

  async answer({ id }: Request, decision: Decision): Promise<string | undefined> {
    const { approved, always, reason } = decision;
    try {
      await this.#chat.answer(
        id,
        approved
          ? { approved, ...(always === undefined ? {} : { always }) }
          : { approved, ...(reason === undefined ? {} : { reason }) },
      );
    } catch (error) {
      if ((error as { code?: string }).code !== 'relay_not_found') throw error;
    }
    return undefined;
  }

  /** Nobody else can answer for this chat: it would wait for ever. */
  async leaveOpen(request: Request): Promise<void> {
    await this.answer(request, { approved: false, reason: 'Nobody was there to ask' });
  }

  async cancel(): Promise<void> {
    this.#left.abort(new Error('The chat was canceled'));
  }
}

type Unnumbered = RunStreamEvent extends infer Event
  ? Event extends unknown
    ? Omit<Event, 'seq'>
    : never
  : never;

const nothing = { inputTokens: 0, outputTokens: 0 };

function ended(
  status: 'completed' | 'failed' | 'canceled',
  output: string,
  used: { readonly inputTokens: number; readonly outputTokens: number },
) {
  const usage = { input_tokens: used.inputTokens, output_tokens: used.outputTokens };
  return { type: 'done', status, output, usage } as const;
}

/** The frames of `/chat` in the words of a run; `said` collects what the first agent says. */
function eventOf(frame: ChatEvent, said: Map<string, string>): Unnumbered | undefined {
  switch (frame.type) {
    case 'text':
      if (frame.parentId !== undefined) return undefined;
      said.set(frame.id, (said.get(frame.id) ?? '') + frame.content);
      return { type: 'token', text: frame.content };
    case 'text_discard':
      said.delete(frame.id);
      return { type: 'reset', after: 0 };
    case 'tool_call':
      return { type: 'tool_call', id: frame.id, name: frame.name, input: frame.input };
    case 'tool_result': {
      const { output } = frame;
      return {
        type: 'tool_result',
        id: frame.id,
        output: output.result ?? output.context ?? output,
      };
    }
    case 'relay':
      return { ...frame, type: 'approval_requested' };
    case 'error':
      return { type: 'error', error: frame.message, code: frame.code, retryable: false };
    case 'harness_end':
      if (frame.parentId !== undefined) return undefined;
      return ended(
        frame.reason === 'limit' ? 'completed' : frame.reason,
        [...said.values()].join('\n'),
        frame.totalUsage,
      );
    case 'connected':
    case 'harness_start':
    case 'reasoning':
    case 'tool_progress':
    case 'usage':
      return undefined;
  }
}
