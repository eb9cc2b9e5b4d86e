/** A request for approval where the agent waits for it. What needs more room is in the inbox. */
import { escapeMisleading } from '@relay/protocol/display';
import type { Approval } from '@relay/protocol/wire';
import { ExternalLink, Hand, LoaderCircle } from 'lucide-react';
import { useState } from 'react';
import { Link } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { useApproval } from '../../api/approvals.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button, buttonClass } from '../../ui/button.tsx';
import { ErrorNotice, Loading } from '../../ui/notice.tsx';
import { QuestionActions } from './actions.tsx';
import { Call, useSeenCall } from './card.tsx';
import { decide, useDecision } from './decisions.ts';
import { OutcomeActions } from './outcome.tsx';
import { Reason } from './reason.tsx';
import { Refusal } from './refusal.tsx';

export function InlineApproval({ id }: { readonly id: string }) {
  const { approval, error } = useApproval(id);
  if (approval !== undefined) return <Pending approval={approval} />;
  if (error !== undefined) {
    return <ErrorNotice title="The request could not be loaded" error={error} />;
  }
  return <Loading lines={3} />;
}

const questions = {
  permission: 'May it run?',
  question: 'The agent asks you',
  outcome: 'Did it take effect?',
} as const;

function Pending({ approval }: { readonly approval: Approval }) {
  const { id, kind, status, tool } = approval;
  const mayApprove = useMay('approve');
  const seen = useSeenCall(approval);
  const isPending = status === 'pending';
  const formId = `answer-${id}`;
  return (
    <section
      aria-label={`Approval of ${escapeMisleading(tool)}`}
      data-approval={id}
      className="flex min-w-0 flex-col gap-3 rounded border border-waiting bg-surface p-3"
    >
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Hand aria-hidden size={16} className="shrink-0 text-waiting" />
        <strong className="min-w-0 font-semibold break-all">
          <SafeText text={tool} maxLength={200} />
        </strong>
        <span className="text-sm text-waiting">{isPending ? questions[kind] : 'Decided'}</span>
        <Link
          href={`/inbox/${id}`}
          className={buttonClass('quiet', 'sm', 'ml-auto')}
          title="Why am I asked, always allow, edit the call"
        >
          <span className="max-sm:sr-only">Open in the inbox</span>{' '}
          <ExternalLink aria-hidden size={12} />
        </Link>
      </div>
      <Call approval={approval} seen={seen} formId={formId} />
      <Refusal id={id} />
      {!isPending || seen.isChanged ? null : mayApprove ? (
        seen.isReadable ? (
          <Actions approval={approval} digest={seen.digest} formId={formId} />
        ) : (
          <div className="h-8 pointer-coarse:h-11" />
        )
      ) : (
        <p className="text-sm text-muted">
          You can read this request but not decide it: your key does not have the scope approve.
        </p>
      )}
    </section>
  );
}

interface ActionsProps {
  readonly approval: Approval;
  readonly digest: string;
  readonly formId: string;
}

function Actions({ approval, digest, formId }: ActionsProps) {
  const decision = useDecision(approval.id);
  const sending = decision?.status === 'sending' ? decision.label : undefined;
  const isBusy = sending !== undefined;
  switch (approval.kind) {
    case 'permission':
      return <PermissionActions id={approval.id} digest={digest} sending={sending} />;
    case 'question':
      return (
        <QuestionActions approval={approval} digest={digest} isBusy={isBusy} formId={formId} />
      );
    case 'outcome':
      return <OutcomeActions approval={approval} digest={digest} isBusy={isBusy} />;
  }
}

interface PermissionActionsProps {
  readonly id: string;
  readonly digest: string;
  /** What is being sent. */
  readonly sending: string | undefined;
}

function PermissionActions({ id, digest, sending }: PermissionActionsProps) {
  const [isDenying, setDenying] = useState(false);
  const isBusy = sending !== undefined;
  if (isDenying) {
    return (
      <Reason
        label="Why not? The agent reads this."
        action="Deny"
        isBusy={isBusy}
        onCancel={() => setDenying(false)}
        onSend={(reason) => {
          void decide(id, 'Denying', { approved: false, digest, ...reason });
          setDenying(false);
        }}
      />
    );
  }
  return (
    <div className="flex flex-wrap gap-2 max-sm:grid max-sm:grid-cols-2">
      <Button
        kind="approve"
        disabled={isBusy}
        onClick={() => void decide(id, 'Approving', { approved: true, digest })}
      >
        {sending === undefined ? (
          'Approve once'
        ) : (
          <>
            <LoaderCircle aria-hidden size={14} className="animate-spin" /> {sending} …
          </>
        )}
      </Button>
      <Button kind="danger" disabled={isBusy} onClick={() => setDenying(true)}>
        Deny…
      </Button>
    </div>
  );
}
