/** Hints for other nodes, as JSON messages, sent after the commit that they report. */
import {
  type Append,
  type Hint,
  type QueuedRunCommand,
  type RunRef,
  wakesSuspendedRun,
} from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { HintChannel } from '../drivers/driver.ts';

const kinds: ReadonlySet<unknown> = new Set<Hint['kind']>([
  'journal',
  'run',
  'approval',
  'inbox',
  'wake',
  'session',
  'message',
  'delivery',
  'tenant',
]);

function encodeHint(hint: Hint): string {
  return JSON.stringify(hint);
}

/** `undefined` for a message of another version. */
export function decodeHint(message: string): Hint | undefined {
  try {
    const hint = JSON.parse(message) as Hint;
    return kinds.has(hint.kind) ? hint : undefined;
  } catch {
    return undefined;
  }
}

export function hintOfCommand({ tenantId, runId }: RunRef, { command }: QueuedRunCommand): Hint {
  return { kind: wakesSuspendedRun(command) ? 'wake' : 'inbox', tenantId, runId };
}

export function hintsOfAppend(tenantId: string, append: Append): Hint[] {
  const { runId, events, progress, release, approvals = [], closeApprovals = [] } = append;
  const { decision } = append;
  const hints: Hint[] = [];
  if (events.some(({ type }) => type.startsWith('run.'))) {
    hints.push({ kind: 'run', tenantId, runId });
  } else if (events.length > 0) {
    hints.push({ kind: 'journal', runId });
  }
  const changed = [
    ...approvals.map(({ id }) => id),
    ...closeApprovals.map(({ approvalId }) => approvalId),
    ...(decision === undefined ? [] : [decision.approvalId]),
    ...events.flatMap((event) => (event.type === 'approval.expiring' ? [event.approvalId] : [])),
  ];
  for (const approvalId of changed) hints.push({ kind: 'approval', tenantId, approvalId });
  const status = progress?.status;
  const canContinue = status !== 'waiting' && (status === undefined || !isEnded(status));
  if (release === true && canContinue) hints.push({ kind: 'wake', tenantId, runId });
  return hints;
}

const ownKinds: ReadonlySet<Hint['kind']> = new Set<Hint['kind']>([
  'session',
  'message',
  'delivery',
]);

/**
 * Sends hints to other nodes. Those about sessions and their messages are also for the node that wrote:
 * requests, receipts and runs all change them, and none of them has to publish what it changed.
 */
export class HintSender {
  readonly #listeners = new Set<(hint: Hint) => void>();

  send(channel: HintChannel | undefined, hints: readonly Hint[]): void {
    for (const hint of hints) {
      channel?.send(encodeHint(hint));
      if (ownKinds.has(hint.kind)) for (const listener of this.#listeners) listener(hint);
    }
  }

  /** Returns a function that unsubscribes. */
  listen(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
