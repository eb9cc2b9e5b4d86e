/** Asks whoever follows a run about its open approvals, and brings the answers back. */
import type { Approval, DecisionBody } from '@relay/protocol/wire';
import { RelayApiError } from './errors.ts';
import { at, type Http } from './http.ts';
import { anyOf, pause } from './pause.ts';
import type { RunStreamEvent, Watcher } from './run-handle.ts';

/**
 * Answers an approval; `undefined` leaves it to somebody else. The signal is aborted when the answer is
 * no longer wanted.
 */
export type OnApproval = (
  approval: Approval,
  context: { readonly signal: AbortSignal },
) => DecisionBody | undefined | Promise<DecisionBody | undefined>;

export interface ApprovalWatcherOptions {
  readonly http: Http;
  readonly onApproval: OnApproval;
  readonly signal?: AbortSignal | undefined;
  /** EventBuffer what went wrong in asking or answering. */
  readonly fail: (error: unknown) => void;
}

export class ApprovalWatcher implements Watcher {
  readonly #options: ApprovalWatcherOptions;
  readonly #open = new Map<string, AbortController>();

  constructor(options: ApprovalWatcherOptions) {
    this.#options = options;
  }

  hear(event: RunStreamEvent): void {
    if (event.type === 'approval_requested') {
      const over = new AbortController();
      this.#open.set(event.id, over);
      void this.#ask(event.id, over.signal).catch(this.#options.fail);
    } else if (event.type === 'approval_resolved') this.#close(event.id);
    else if (event.type === 'done') for (const id of this.#open.keys()) this.#close(id);
  }

  #close(id: string): void {
    this.#open.get(id)?.abort(new Error('This approval is no longer open'));
    this.#open.delete(id);
  }

  async #ask(id: string, over: AbortSignal): Promise<void> {
    const { http, onApproval } = this.#options;
    const signal = anyOf(over, this.#options.signal);
    // What comes with the same bytes may be its answer: about the past nobody is asked.
    await pause(0);
    if (signal.aborted) return;
    try {
      const path = at`/v1/approvals/${id}`;
      const approval = await http.json<Approval>('GET', path, { signal });
      if (approval.status !== 'pending') return;
      const decision = await onApproval(approval, { signal });
      if (decision === undefined || signal.aborted) return;
      // The first answer counts and repeating it changes nothing, so it may be said again.
      await http.json('POST', path, { body: decision, repeatable: true, signal });
    } catch (error) {
      // Somebody else was faster, or nobody wants to know any more.
      if (signal.aborted) return;
      if (error instanceof RelayApiError && error.code === 'approval_conflict') return;
      throw error;
    }
  }
}
