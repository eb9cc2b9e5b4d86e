/**
 * Calls the handler for each open approval of a followed run, and sends its decision. Each kind has a
 * handler of its own: code that approves calls must not answer what it was not written for.
 */
import type { Approval, DecisionBody } from '@relay/protocol/wire';
import { RelayApiError } from '../errors.ts';
import { type Http, pathOf } from '../http.ts';
import { anyOf, sleep } from '../timing.ts';
import type { RunStreamEvent, Watcher } from './run-handle.ts';

/**
 * Decides an approval; `undefined` leaves it to another approver. The signal is aborted when the approval
 * is no longer open.
 */
type Handler<Decision extends DecisionBody> = (
  approval: Approval,
  context: { readonly signal: AbortSignal },
) => Decision | undefined | Promise<Decision | undefined>;

export type PermissionDecision = Omit<DecisionBody, 'approved' | 'outcome' | 'output'> & {
  readonly approved: boolean;
};

/** `input` is the answer, which matches the `schema` of the approval. */
export type QuestionDecision =
  | { readonly approved: true; readonly input: NonNullable<DecisionBody['input']> | null }
  | { readonly approved: false; readonly reason?: string };

/**
 * The call was started before a crash or a stop of the server and may have taken effect. `rerun` runs it
 * again, `completed` says that it took effect, `failed` that it did not.
 */
export type OutcomeDecision =
  | { readonly outcome: 'rerun' | 'failed'; readonly reason?: string }
  | {
      readonly outcome: 'completed';
      readonly output: NonNullable<DecisionBody['output']> | null;
      readonly reason?: string;
    };

export type OnApproval = Handler<PermissionDecision>;
export type OnQuestion = Handler<QuestionDecision>;
export type OnOutcome = Handler<OutcomeDecision>;

/** Called while the run is read. Approvals without a handler wait for another approver. */
export interface ApprovalHandlers {
  /** May the call run? */
  readonly onApproval?: OnApproval | undefined;
  /** A tool asks for input. */
  readonly onQuestion?: OnQuestion | undefined;
  /** Did the call take effect? */
  readonly onOutcome?: OnOutcome | undefined;
}

export interface ApprovalWatcherOptions extends ApprovalHandlers {
  readonly http: Http;
  readonly signal?: AbortSignal | undefined;
  /** Called if a handler or a request fails. */
  readonly fail: (error: unknown) => void;
}

/** About five minutes, as the stream of the run reconnects: a server that restarts does not fail the run. */
const maxRetries = 40;

export class ApprovalWatcher implements Watcher {
  readonly #options: ApprovalWatcherOptions;
  readonly #open = new Map<string, AbortController>();

  constructor(options: ApprovalWatcherOptions) {
    this.#options = options;
  }

  onEvent(event: RunStreamEvent): void {
    if (event.type === 'approval_requested') {
      const handler = this.#handlerOf(event.kind);
      if (handler === undefined) return;
      const closed = new AbortController();
      this.#open.set(event.id, closed);
      void this.#decide(event.id, handler, closed.signal).catch(this.#options.fail);
    } else if (event.type === 'approval_resolved') this.#close(event.id);
    else if (event.type === 'done') for (const id of this.#open.keys()) this.#close(id);
  }

  #handlerOf(kind: Approval['kind']): Handler<DecisionBody> | undefined {
    const { onApproval, onQuestion, onOutcome } = this.#options;
    switch (kind) {
      case 'permission':
        return onApproval;
      case 'question':
        return onQuestion;
      case 'outcome':
        return onOutcome;
    }
  }

  #close(id: string): void {
    this.#open.get(id)?.abort(new Error('This approval is no longer open'));
    this.#open.delete(id);
  }

  async #decide(id: string, handler: Handler<DecisionBody>, closed: AbortSignal): Promise<void> {
    const { http } = this.#options;
    const signal = anyOf(closed, this.#options.signal);
    // The same chunk may already contain the decision, as in a replay.
    await sleep(0);
    if (signal.aborted) return;
    try {
      const path = pathOf`/v1/approvals/${id}`;
      const approval = await http.json<Approval>('GET', path, { signal, maxRetries });
      if (approval.status !== 'pending') return;
      const decision = await handler(approval, { signal });
      if (decision === undefined || signal.aborted) return;
      // The handler has seen these arguments, and no others.
      const digest = approval.executedDigest ?? approval.digest;
      const body = decision.approved === true ? { digest, ...decision } : decision;
      // Repeating a decision has no effect, so it is safe to retry.
      await http.json('POST', path, { body, repeatable: true, signal, maxRetries });
    } catch (error) {
      // Another approver was faster, or the reader has stopped.
      if (signal.aborted) return;
      if (error instanceof RelayApiError && error.code === 'approval_conflict') return;
      if (error instanceof RelayApiError && error.code === 'approval_changed') {
        return this.#decide(id, handler, closed);
      }
      throw error;
    }
  }
}
