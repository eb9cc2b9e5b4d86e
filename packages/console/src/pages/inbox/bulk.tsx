/** Several identical calls at once. Each is a decision of its own, and none creates a rule. */
import type { Approval } from '@relay/protocol/wire';
import { useState } from 'react';
import { approvals } from '../../api/approvals.ts';
import { Button } from '../../ui/button.tsx';
import { toast } from '../../ui/toast.tsx';
import { decide } from './decisions.ts';
import { Reason } from './reason.tsx';
import { shownDigest } from './words.ts';

interface BulkProps {
  readonly chosen: readonly Approval[];
  /** Whether the person has seen the whole call: a row shows only its beginning. */
  readonly isSeen: boolean;
  readonly onClear: () => void;
}

/** Requests at a time. */
const maxRequests = 4;

export function BulkBar({ chosen, isSeen, onClear }: BulkProps) {
  const [isDenying, setDenying] = useState(false);
  const [isSending, setSending] = useState(false);
  const [first] = chosen;
  if (first === undefined) return null;
  const what = `${chosen.length} identical ${chosen.length === 1 ? 'call' : 'calls'}`;

  const send = async (
    verb: string,
    label: string,
    body: { approved: boolean; reason?: string },
  ) => {
    setSending(true);
    const waiting = [...chosen];
    let done = 0;
    const sender = async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const { id } = next;
        // Another approver may have decided it since it was chosen.
        if (approvals.get(id)?.status !== 'pending') continue;
        if (await decide(id, label, { ...body, digest: shownDigest(next) })) done += 1;
      }
    };
    await Promise.all(Array.from({ length: maxRequests }, sender));
    setSending(false);
    setDenying(false);
    const rest = chosen.length - done;
    toast(
      rest === 0
        ? `${verb} ${done} calls`
        : `${verb} ${done} calls; ${rest} were not: their cards say why`,
      rest === 0 ? 'info' : 'error',
    );
    onClear();
  };

  return (
    <div role="region" aria-label="Chosen calls" className="border-t border-line bg-surface p-3">
      {isDenying ? (
        <Reason
          label={`Why not? Each agent of the ${what} reads this.`}
          action={`Deny ${what}`}
          isBusy={isSending}
          onCancel={() => setDenying(false)}
          onSend={(reason) => void send('Denied', 'Denying', { approved: false, ...reason })}
        />
      ) : (
        <div className="flex flex-wrap items-center gap-2">
          <Button
            kind="approve"
            disabled={isSending || !isSeen}
            onClick={() => void send('Approved', 'Approving', { approved: true })}
          >
            Approve {what}
          </Button>
          <Button kind="danger" disabled={isSending} onClick={() => setDenying(true)}>
            Deny…
          </Button>
          <Button kind="quiet" disabled={isSending} onClick={onClear}>
            Clear
          </Button>
          {isSeen ? null : (
            <p className="w-full text-xs text-muted">
              Open one of them first, to see all of what would run.
            </p>
          )}
        </div>
      )}
    </div>
  );
}
