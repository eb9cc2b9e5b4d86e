/** Calls `onApproval` for each open approval of a followed run, and sends its decisions. */
import type { Approval, DecisionBody } from '@relay/protocol/wire';
import { RelayApiError } from '../errors.ts';
import { type Http, pathOf } from '../http.ts';
import { anyOf, sleep } from '../timing.ts';
import type { RunStreamEvent, Watcher } from './run-handle.ts';

/**
 * Decides an approval; `undefined` leaves it to another approver. The signal is aborted when the approval
 * is no longer open.
 */
export type OnApproval = (
  approval: Approval,
  context: { readonly signal: AbortSignal },
) => DecisionBody | undefined | Promise<DecisionBody | undefined>;

export interface ApprovalWatcherOptions {
  readonly http: Http;
  readonly onApproval: OnApproval;
  readonly signal?: AbortSignal | undefined;
  /** Called if `onApproval` or a request fails. */
  readonly fail: (error: unknown) => void;
}

export class ApprovalWatcher implements Watcher {
  readonly #options: ApprovalWatcherOptions;
  readonly #open = new Map<string, AbortController>();

  constructor(options: ApprovalWatcherOptions) {
    this.#options = options;
  }

  onEvent(event: RunStreamEvent): void {
    if (event.type === 'approval_requested') {
      const closed = new AbortController();
      this.#open.set(event.id, closed);
      void this.#decide(event.id, closed.signal).catch(this.#options.fail);
    } else if (event.type === 'approval_resolved') this.#close(event.id);
    else if (event.type === 'done') for (const id of this.#open.keys()) this.#close(id);
  }

  #close(id: string): void {
    this.#open.get(id)?.abort(new Error('This approval is no longer open'));
    this.#open.delete(id);
  }

  async #decide(id: string, closed: AbortSignal): Promise<void> {
    const { http, onApproval } = this.#options;
    const signal = anyOf(closed, this.#options.signal);
    // The same chunk may already contain the decision, as in a replay.
    await sleep(0);
    if (signal.aborted) return;
    try {
      const path = pathOf`/v1/approvals/${id}`;
      const approval = await http.json<Approval>('GET', path, { signal });
      if (approval.status !== 'pending') return;
      const decision = await onApproval(approval, { signal });
      if (decision === undefined || signal.aborted) return;
      // Repeating a decision has no effect, so it is safe to retry.
      await http.json('POST', path, { body: decision, repeatable: true, signal });
    } catch (error) {
      // Another approver was faster, or the reader has stopped.
      if (signal.aborted) return;
      if (error instanceof RelayApiError && error.code === 'approval_conflict') return;
      throw error;
    }
  }
}
