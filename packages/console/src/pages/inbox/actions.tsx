/** The decision: always in the same place, below the card, and always about the approval in the card. */
import type { Approval } from '@relay/protocol/wire';
import { useQuery } from '@tanstack/react-query';
import { LoaderCircle } from 'lucide-react';
import { type ReactNode, Suspense, useState } from 'react';
import { useAccount, useMay } from '../../api/account.tsx';
import { isDecidable } from '../../api/approvals.ts';
import { useShortcuts } from '../../frame/shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Kbd } from '../../ui/layout.tsx';
import { lazyPart } from '../../ui/lazy-part.ts';
import { decide, dismissRefusal, useDecision } from './decisions.ts';
import { OutcomeActions } from './outcome.tsx';
import { Reason } from './reason.tsx';
import { Refusal } from './refusal.tsx';
import { hasVoted } from './words.ts';

const Always = lazyPart(async () => (await import('./always.tsx')).Always);
const Edit = lazyPart(async () => (await import('./edit.tsx')).Edit);

interface ActionBarProps {
  readonly approval: Approval;
  /** Of the call as the person has seen it. */
  readonly digest: string;
  /** The call is not what they have seen. */
  readonly isChanged: boolean;
  /** The call is on the page. */
  readonly isReadable: boolean;
  readonly onNext: (() => void) | undefined;
}

export function ActionBar(props: ActionBarProps) {
  const { approval } = props;
  const decision = useDecision(approval.id);
  return (
    <footer className="shrink-0 border-t border-line bg-surface">
      <div className="mx-auto flex max-h-[60vh] max-w-[920px] flex-col gap-2 overflow-y-auto px-4 py-3">
        {decision?.status === 'refused' ? (
          <div className="flex items-start gap-2 text-sm">
            <div className="min-w-0 flex-1 [&>p]:mt-0">
              <Refusal id={approval.id} />
            </div>
            <Button size="sm" onClick={() => dismissRefusal(approval.id)}>
              Dismiss
            </Button>
          </div>
        ) : null}
        <Decision {...props} />
      </div>
    </footer>
  );
}

/** What the person can do: decide, go on, or read why there is nothing to do. */
function Decision(props: ActionBarProps): ReactNode {
  const { approval, isChanged, onNext } = props;
  const { data: account } = useAccount();
  const mayApprove = useMay('approve');
  const isMine = useIsMine(approval);
  const decision = useDecision(approval.id);
  if (approval.status !== 'pending') {
    return onNext === undefined ? (
      <p className="text-sm text-muted">No other request waits.</p>
    ) : (
      <div>
        <Button kind="primary" onClick={onNext}>
          Next request <Kbd>J</Kbd>
        </Button>
      </div>
    );
  }
  if (!mayApprove) {
    return (
      <p className="text-sm text-muted">
        You can read this request but not decide it: your key does not have the scope approve.
      </p>
    );
  }
  if (!isMine) return <NotMine approval={approval} isVoter={hasVoted(approval, account)} />;
  if (isChanged) {
    return <p className="text-sm text-muted">Look at the changed call first, and say so above.</p>;
  }
  const sending = decision?.status === 'sending' ? decision.label : undefined;
  return <Actions {...props} sending={sending} />;
}

/** Whether the person may decide it now. The server says so if they try before that is known. */
function useIsMine(approval: Approval): boolean {
  const { id, approvers, votes = [], status } = approval;
  const { data = true } = useQuery({
    // Each vote changes who is still asked.
    queryKey: ['decidable', id, votes.length],
    queryFn: () => isDecidable(approval),
    enabled: approvers !== undefined && status === 'pending',
  });
  return approvers === undefined ? true : data;
}

interface NotMineProps {
  readonly approval: Approval;
  readonly isVoter: boolean;
}

/** The policy names others, or more persons than this one. */
function NotMine({ approval, isVoter }: NotMineProps) {
  const { quorum = 1, votes = [] } = approval;
  const missing = quorum - votes.length;
  if (!isVoter) {
    return (
      <p className="text-sm text-muted">
        You cannot decide this request: the policy names other approvers, see “Who may decide”.
      </p>
    );
  }
  return (
    <p role="status" className="text-sm">
      <strong className="font-semibold">You have approved it.</strong> It waits for {missing}{' '}
      {missing === 1 ? 'more person' : 'more persons'}.
    </p>
  );
}

function Actions(props: ActionBarProps & { readonly sending: string | undefined }): ReactNode {
  const { approval, digest, sending } = props;
  const isBusy = sending !== undefined || !props.isReadable;
  switch (approval.kind) {
    case 'permission':
      return <PermissionActions {...props} />;
    case 'question':
      return <QuestionActions approval={approval} digest={digest} isBusy={isBusy} />;
    case 'outcome':
      return <OutcomeActions approval={approval} digest={digest} isBusy={isBusy} />;
  }
}

/** The form of the answer, which is in the card. */
export const answerFormId = 'answer';

interface QuestionActionsProps {
  readonly approval: Approval;
  readonly digest: string;
  readonly isBusy: boolean;
  readonly formId?: string;
}

export function QuestionActions(props: QuestionActionsProps) {
  const { digest, isBusy, formId = answerFormId } = props;
  const { id } = props.approval;
  const [isDeclining, setDeclining] = useState(false);
  if (isDeclining) {
    return (
      <Reason
        label="Why is there no answer? The agent reads this."
        action="Decline"
        isBusy={isBusy}
        onCancel={() => setDeclining(false)}
        onSend={(reason) => void decide(id, 'Declining', { approved: false, digest, ...reason })}
      />
    );
  }
  return (
    <div className="flex flex-wrap gap-2 max-sm:grid max-sm:grid-cols-2">
      <Button kind="approve" type="submit" form={formId} disabled={isBusy}>
        {isBusy ? 'Sending …' : 'Send the answer'}
      </Button>
      <Button kind="danger" disabled={isBusy} onClick={() => setDeclining(true)}>
        Decline…
      </Button>
    </div>
  );
}

/** Why calls like this cannot be allowed for the future. */
function noAlways({ concrete, rule }: Approval): string | undefined {
  if (concrete === false)
    return 'What the call would do is not known, so it can be approved only once.';
  if (rule === undefined) return undefined;
  return rule.list === 'needsApproval'
    ? 'Each call of this tool needs a person.'
    : 'An ask rule demands a person for each such call.';
}

function PermissionActions({
  approval,
  digest,
  sending,
  isReadable,
}: ActionBarProps & { readonly sending: string | undefined }) {
  const [form, setForm] = useState<'always' | 'edit' | 'deny'>();
  const { id, editable, quorum = 1, votes = [] } = approval;
  const isBusy = sending !== undefined || !isReadable;
  const close = () => setForm(undefined);
  const approve = () => void decide(id, 'Approving', { approved: true, digest });
  const canEdit = editable !== false;
  const onlyOnce = noAlways(approval);
  const isBlocked = isBusy || form !== undefined;
  useShortcuts({
    a: ({ repeat }) => {
      // A key that was held down before the card was shown was not meant for it.
      if (!isBlocked && !repeat) approve();
    },
    d: () => {
      if (!isBlocked) setForm('deny');
    },
    e: () => {
      if (!isBlocked && canEdit) setForm('edit');
    },
  });

  if (form === 'deny') {
    return (
      <Reason
        label="Why not? The agent reads this."
        action="Deny"
        isBusy={isBusy}
        onCancel={close}
        onSend={(reason) => {
          void decide(id, 'Denying', { approved: false, digest, ...reason });
          close();
        }}
      />
    );
  }
  return (
    <>
      <div className="flex flex-wrap items-center gap-2 max-sm:grid max-sm:grid-cols-2">
        <Button kind="approve" disabled={isBusy} onClick={approve}>
          {sending === undefined ? (
            <>
              {quorum > 1 ? 'Approve' : 'Approve once'} <Kbd>A</Kbd>
            </>
          ) : (
            <>
              <LoaderCircle aria-hidden size={14} className="animate-spin" /> {sending} …
            </>
          )}
        </Button>
        <Button
          kind="danger"
          disabled={isBusy}
          onClick={() => setForm('deny')}
          className="sm:order-last"
        >
          Deny… <Kbd>D</Kbd>
        </Button>
        <Button
          disabled={isBusy || onlyOnce !== undefined}
          title={onlyOnce}
          onClick={() => setForm('always')}
        >
          Always…
        </Button>
        <Button
          disabled={isBusy || !canEdit}
          title={
            canEdit
              ? undefined
              : 'The agent decides about its own arguments: approve it as it is, or deny it.'
          }
          onClick={() => setForm('edit')}
        >
          Edit… <Kbd>E</Kbd>
        </Button>
        {quorum < 2 ? null : (
          <span className="ml-auto text-sm text-muted sm:order-last">
            votes {votes.length} / {quorum}
          </span>
        )}
      </div>
      {onlyOnce === undefined ? null : <p className="text-xs text-muted">{onlyOnce}</p>}
      <Suspense>
        {form === 'always' ? <Always approval={approval} digest={digest} onClose={close} /> : null}
        {form === 'edit' ? <Edit approval={approval} digest={digest} onClose={close} /> : null}
      </Suspense>
    </>
  );
}
