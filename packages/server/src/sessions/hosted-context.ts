/** What a harness can do for one of its sessions. */
import {
  askPermission,
  askQuestion,
  type Engine,
  type Harness,
  type HarnessContext,
  type HarnessQuestion,
  type OutgoingMessage,
  type PermissionAnswer,
  type PermissionRequest,
  type QuestionAnswer,
  type Receipt,
  saveHostedState,
  sendMessage,
  recordBreach,
  sendReplies,
  type SessionRef,
  type TurnAnswer,
} from '@relay/core';
import { RelayError } from '@relay/protocol';
import { settle } from './hosted-inbox.ts';

/** How often what is allowed looks whether its tenant is still paused. */
const pauseCheckMs = 500;
const maxStateChars = 64 * 1024;

export interface HostedContextOptions {
  readonly engine: Engine;
  readonly ref: SessionRef;
  readonly harness: Harness;
  /** Aborted when the session has ended, or the node has stopped. */
  readonly signal: AbortSignal;
  /** Aborted when the node begins to stop. */
  readonly stopping: AbortSignal;
}

export class HostedContext implements HarnessContext {
  readonly #options: HostedContextOptions;
  /** What `attach` needs after a restart. */
  saved: unknown;
  /** The session is in the store, and its harness has it. */
  isStored = false;

  constructor(options: HostedContextOptions) {
    this.#options = options;
  }

  get signal(): AbortSignal {
    return this.#options.signal;
  }

  readonly receipt = (deliveryId: string, receipt: Receipt): Promise<void> =>
    settle(this.#options, deliveryId, receipt);

  readonly requestPermission = async (request: PermissionRequest): Promise<PermissionAnswer> => {
    this.#requireStored();
    const { engine, ref } = this.#options;
    const signal = this.#untilOver(request.signal);
    const answer = await askPermission(engine, ref, request, signal);
    if (!answer.allowed || (await this.#isResumed(signal))) return answer;
    return { allowed: false, reason: 'The tenant is paused', by: 'closed' };
  };

  /** While the tenant is paused, nothing that is allowed begins. False if the signal is aborted first. */
  async #isResumed(signal: AbortSignal): Promise<boolean> {
    const { clock, invocations } = this.#options.engine;
    while (invocations?.isPaused(this.#options.ref.tenantId) === true) {
      if (signal.aborted) return false;
      await clock.sleep(pauseCheckMs, signal);
    }
    return true;
  }

  readonly ask = async (question: HarnessQuestion): Promise<QuestionAnswer> => {
    this.#requireStored();
    const { engine, ref } = this.#options;
    return askQuestion(engine, ref, question, this.#untilOver(question.signal));
  };

  #untilOver(signal?: AbortSignal): AbortSignal {
    const { stopping } = this.#options;
    return AbortSignal.any([this.signal, stopping, ...(signal === undefined ? [] : [signal])]);
  }

  readonly send = async ({ to, ...draft }: OutgoingMessage): Promise<{ readonly id: string }> => {
    this.#requireStored();
    const { engine, ref } = this.#options;
    const { tenantId, sessionId } = ref;
    const session = await engine.store.tenant(tenantId).sessions.read(sessionId);
    if (session === undefined) throw new RelayError('not_found', 'No such session');
    const from = { type: 'session', id: sessionId, name: session.handle } as const;
    const addresses = typeof to === 'string' ? [to] : to;
    const { message } = await sendMessage(
      { engine },
      { tenantId, from, by: from },
      { ...draft, to: addresses },
    );
    return { id: message.id };
  };

  readonly reportBreach = async (breach: Parameters<typeof recordBreach>[2]): Promise<void> => {
    this.#requireStored();
    await recordBreach(this.#options.engine, this.#options.ref, breach);
  };

  readonly reply = async (answer: TurnAnswer): Promise<void> => {
    this.#requireStored();
    await sendReplies(this.#options.engine, this.#options.ref, answer);
  };

  readonly saveState = async (state: unknown): Promise<void> => {
    const { engine, ref } = this.#options;
    const json = JSON.stringify(state) ?? 'null';
    const text = engine.redact?.(json) ?? json;
    if (text.length > maxStateChars) {
      const message = `The state has more than ${maxStateChars} characters`;
      throw new RelayError('invalid_request', message);
    }
    this.saved = JSON.parse(text);
    if (this.isStored) await saveHostedState(engine, ref, this.saved);
  };

  #requireStored(): void {
    if (this.isStored) return;
    throw new RelayError('session_conflict', 'The session is not created or attached yet');
  }
}
