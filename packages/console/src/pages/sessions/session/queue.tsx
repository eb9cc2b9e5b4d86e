/** Messages that the session has not received: they can be changed and withdrawn. */
import type { Delivery, DeliveryMode, Session, SessionMessage } from '@relay/sdk';
import { useMutation } from '@tanstack/react-query';
import { Pencil, Send, Undo2 } from 'lucide-react';
import { useState } from 'react';
import { useAccount, useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { queries } from '../../../api/queries.ts';
import { sessionChanged } from '../../../api/sessions.ts';
import { Markdown } from '../../../text/markdown.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button } from '../../../ui/button.tsx';
import { TextArea } from '../../../ui/form.tsx';
import { Empty, ErrorNotice, errorText, Loading } from '../../../ui/notice.tsx';
import { toast } from '../../../ui/toast.tsx';
import { Time } from '../../../ui/values.tsx';
import { modes } from '../abilities.ts';
import { ModeSelect } from '../messages/composer.tsx';
import { isQueued } from '../messages/receipt.ts';
import { useMessage, useQueue, useSessionMessages } from './session-data.ts';
import { DeliveryReceipt } from '../messages/ticks.tsx';

export function Queue({ session }: { readonly session: Session }) {
  const mayRun = useMay('runs');
  const messages = useSessionMessages(session);
  const { data, error, refetch } = useQueue(session.id);
  const flush = useMutation({
    mutationFn: () => client.sessions.flush(session.id),
    onSuccess: sessionChanged,
    onError: (failure) => toast(`The queue was not delivered: ${errorText(failure)}`, 'error'),
  });
  if (error !== null) {
    return (
      <ErrorNotice
        title="The queue could not be loaded"
        error={error}
        onRetry={() => void refetch()}
      />
    );
  }
  if (data === undefined) return <Loading />;
  if (data.length === 0) {
    return (
      <Empty title="The queue is empty">
        Messages wait here until the session can take them. One that is sent “manually” waits until
        you deliver it.
      </Empty>
    );
  }
  const manual = data.filter(({ mode }) => mode === 'manual').length;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <div className="mx-auto flex max-w-[860px] flex-col gap-2 p-4">
        {manual > 0 ? (
          <div className="flex flex-wrap items-center gap-2 text-sm text-muted">
            {manual === 1 ? 'One message waits' : `${manual} messages wait`} to be delivered
            manually.
            <Button
              size="sm"
              disabled={!mayRun || flush.isPending}
              title={mayRun ? undefined : 'This needs the scope runs'}
              onClick={() => flush.mutate()}
            >
              <Send aria-hidden size={12} /> Deliver now
            </Button>
          </div>
        ) : null}
        {data.map((delivery) => (
          <Queued
            key={delivery.id}
            delivery={delivery}
            known={messages.get(delivery.messageId)}
            session={session}
          />
        ))}
      </div>
    </div>
  );
}

interface QueuedProps {
  readonly delivery: Delivery;
  readonly known: SessionMessage | undefined;
  readonly session: Session;
}

function Queued({ delivery, known, session }: QueuedProps) {
  const { messageId, mode, acceptedAt } = delivery;
  const { data: account } = useAccount();
  const mayRun = useMay('runs');
  const isAdmin = useMay('admin');
  const [edited, setEdited] = useState<{ text: string; mode: DeliveryMode }>();
  const { message } = useMessage(messageId, known);
  const done = async () => {
    await queries.invalidateQueries({ queryKey: ['message', messageId] });
    await queries.invalidateQueries({ queryKey: ['deliveries'] });
    await queries.invalidateQueries({ queryKey: ['session-messages'] });
  };
  const save = useMutation({
    mutationFn: (change: { text: string; mode: DeliveryMode }) =>
      client.messages.edit(messageId, change),
    onSuccess: async () => {
      setEdited(undefined);
      await done();
    },
  });
  const withdraw = useMutation({
    mutationFn: () => client.messages.withdraw(messageId),
    onSuccess: done,
    onError: (error) => toast(`It was not withdrawn: ${errorText(error)}`, 'error'),
  });
  const why = whyNotChange();
  function whyNotChange(): string | undefined {
    if (!mayRun) return 'You may only look: this needs the scope runs';
    if (!isQueued(delivery)) return 'The session was handed this message before';
    if (message !== undefined && message.from.id !== account?.id && !isAdmin) {
      return `Only ${message.from.name}, who has sent it, or an admin can change it`;
    }
    return undefined;
  }
  return (
    <article className="flex flex-col gap-2 rounded border border-line bg-surface p-3">
      <header className="flex flex-wrap items-center gap-x-2 text-xs text-muted">
        <strong className="font-semibold text-text">
          <SafeText text={message?.from.name ?? '…'} />
        </strong>
        <Time at={acceptedAt} />
        <span>{modes.find((each) => each.mode === mode)?.label}</span>
        <DeliveryReceipt delivery={delivery} />
      </header>
      {edited === undefined ? (
        <Markdown text={message?.text ?? ''} />
      ) : (
        <TextArea
          aria-label="Text"
          rows={4}
          autoFocus
          value={edited.text}
          onChange={(event) => setEdited({ ...edited, text: event.target.value })}
        />
      )}
      {save.error === null ? null : (
        <div role="alert" className="text-sm text-failed">
          It was not changed: {errorText(save.error)}
        </div>
      )}
      <footer className="flex flex-wrap items-center gap-2">
        {edited === undefined ? (
          <>
            <Button
              size="sm"
              disabled={why !== undefined || message === undefined}
              title={why}
              onClick={() => setEdited({ text: message?.text ?? '', mode })}
            >
              <Pencil aria-hidden size={12} /> Edit
            </Button>
            <Button
              size="sm"
              kind="danger"
              disabled={why !== undefined || withdraw.isPending}
              title={why}
              onClick={() => withdraw.mutate()}
            >
              <Undo2 aria-hidden size={12} /> Withdraw
            </Button>
            {why === undefined ? null : <span className="text-xs text-muted">{why}</span>}
          </>
        ) : (
          <>
            <ModeSelect
              session={session}
              mode={edited.mode}
              onChange={(chosen) => setEdited({ ...edited, mode: chosen })}
            />
            <Button
              size="sm"
              kind="primary"
              disabled={edited.text === '' || save.isPending}
              onClick={() => save.mutate(edited)}
            >
              Save
            </Button>
            <Button size="sm" onClick={() => setEdited(undefined)}>
              Cancel
            </Button>
          </>
        )}
      </footer>
    </article>
  );
}
