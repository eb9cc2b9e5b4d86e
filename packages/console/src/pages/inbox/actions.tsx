/** The decision: always in the same place, below the card, and always about the approval in the card. */
import type { Approval } from '@relay/protocol/wire';
import { LoaderCircle } from 'lucide-react';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import { useMay } from '../../api/account.tsx';
import { useShortcuts } from '../../frame/shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Kbd } from '../../ui/layout.tsx';
import { decide, dismissRefusal, useDecision } from './decisions.ts';
import { OutcomeActions } from './outcome.tsx';
import { Reason } from './reason.tsx';
import { Refusal } from './refusal.tsx';

const Always = lazy(async () => ({ default: (await import('./always.tsx')).Always }));
const Edit = lazy(async () => ({ default: (await import('./edit.tsx')).Edit }));

interface ActionBarProps {
  readonly approval: Approval;
  /** Of the call as the person has seen it. */
  readonly digest: string;
  /** The call is not what they have seen. */
  readonly isChanged: boolean;
  readonly onNext: () => void;
}

export function ActionBar(props: ActionBarProps) {
  const { approval, isChanged, onNext } = props;
  const mayApprove = useMay('approve');
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
        {approval.status !== 'pending' ? (
          <div className="flex items-center gap-3">
            <Button kind="primary" onClick={onNext}>
              Next request <Kbd>J</Kbd>
            </Button>
          </div>
        ) : !mayApprove ? (
          <p className="text-sm text-muted">
            You can read this request but not decide it: your key does not have the scope approve.
          </p>
        ) : isChanged ? (
          <p className="text-sm text-muted">Look at the changed call first, and say so above.</p>
        ) : (
          <Actions
            {...props}
            sending={decision?.status === 'sending' ? decision.label : undefined}
          />
        )}
      </div>
    </footer>
  );
}

function Actions(props: ActionBarProps & { readonly sending: string | undefined }): ReactNode {
  const { approval, digest, sending } = props;
  const isBusy = sending !== undefined;
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
}

function QuestionActions({ approval: { id }, digest, isBusy }: QuestionActionsProps) {
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
      <Button kind="approve" type="submit" form={answerFormId} disabled={isBusy}>
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
}: ActionBarProps & { readonly sending: string | undefined }) {
  const [form, setForm] = useState<'always' | 'edit' | 'deny'>();
  const { id, editable } = approval;
  const isBusy = sending !== undefined;
  const close = () => setForm(undefined);
  const approve = () => void decide(id, 'Approving', { approved: true, digest });
  const canEdit = editable !== false;
  const onlyOnce = noAlways(approval);
  const ready = isBusy || form !== undefined;
  useShortcuts({
    a: ({ repeat }) => {
      // A key that was held down before the card was shown was not meant for it.
      if (!ready && !repeat) approve();
    },
    d: () => {
      if (!ready) setForm('deny');
    },
    e: () => {
      if (!ready && canEdit) setForm('edit');
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
              Approve once <Kbd>A</Kbd>
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
      </div>
      {onlyOnce === undefined ? null : <p className="text-xs text-muted">{onlyOnce}</p>}
      <Suspense>
        {form === 'always' ? <Always approval={approval} digest={digest} onClose={close} /> : null}
        {form === 'edit' ? <Edit approval={approval} digest={digest} onClose={close} /> : null}
      </Suspense>
    </>
  );
}
