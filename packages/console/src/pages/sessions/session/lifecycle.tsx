/** What is done with a session as a whole. What it cannot do is greyed, with the reason. */
import type { Session, SessionSnapshot } from '@relay/sdk';
import { useMutation } from '@tanstack/react-query';
import {
  Camera,
  CircleStop,
  Ellipsis,
  GitFork,
  type LucideIcon,
  Pause,
  Play,
  Power,
  Trash2,
} from 'lucide-react';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { sessionChanged } from '../../../api/sessions.ts';
import { Button } from '../../../ui/button.tsx';
import { Field, Input } from '../../../ui/form.tsx';
import { ErrorNotice, errorText } from '../../../ui/notice.tsx';
import { Confirm, FormDialog, Menu } from '../../../ui/overlay.tsx';
import { toast } from '../../../ui/toast.tsx';
import { Id } from '../../../ui/values.tsx';
import { type Operation, whyNot } from '../abilities.ts';

type Command = 'pause' | 'resume' | 'cancel' | 'release';

const done: Readonly<Record<Command, string>> = {
  pause: 'The session pauses after the running model call or tool.',
  resume: 'The session goes on.',
  cancel: 'The turn is canceled.',
  release: 'The session is released.',
};

export function Lifecycle({ session }: { readonly session: Session }) {
  const [, navigate] = useLocation();
  const mayRun = useMay('runs');
  const isAdmin = useMay('admin');
  const [open, setOpen] = useState<'fork' | 'release' | 'delete'>();
  const [snapshot, setSnapshot] = useState<SessionSnapshot>();
  const failed = (error: unknown) => toast(errorText(error), 'error');
  const command = useMutation({
    mutationFn: (name: Command) => client.sessions[name](session.id),
    onSuccess: (changed, name) => {
      sessionChanged(changed);
      setOpen(undefined);
      toast(done[name]);
    },
    onError: failed,
  });
  const save = useMutation({
    mutationFn: () => client.sessions.snapshot(session.id),
    onSuccess: setSnapshot,
    onError: failed,
  });
  const drop = useMutation({
    mutationFn: () => client.sessions.drop(session.id),
    onSuccess: () => {
      toast(`@${session.identity.handle} is deleted.`);
      navigate('/sessions');
    },
    onError: failed,
  });
  const why = (operation: Operation) => whyNot(session, operation, mayRun);
  const isPaused = session.status === 'paused';
  const quick = isPaused ? ('resume' as const) : ('pause' as const);

  return (
    <>
      {why('cancel') === undefined ? (
        <Button
          className="max-md:hidden"
          disabled={command.isPending}
          onClick={() => command.mutate('cancel')}
        >
          <CircleStop aria-hidden size={14} /> Cancel the turn
        </Button>
      ) : null}
      {why(quick) === undefined ? (
        <Button
          className="max-md:hidden"
          disabled={command.isPending}
          onClick={() => command.mutate(quick)}
        >
          {isPaused ? <Play aria-hidden size={14} /> : <Pause aria-hidden size={14} />}
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
      ) : null}
      <Menu
        trigger={<Button aria-label="Operations of the session" />}
        triggerLabel={<Ellipsis aria-hidden size={16} />}
        items={[
          {
            label: <Label icon={Pause} text="Pause" why={why('pause')} />,
            disabledReason: why('pause'),
            onSelect: () => command.mutate('pause'),
          },
          {
            label: <Label icon={Play} text="Resume" why={why('resume')} />,
            disabledReason: why('resume'),
            onSelect: () => command.mutate('resume'),
          },
          {
            label: <Label icon={CircleStop} text="Cancel the turn" why={why('cancel')} />,
            disabledReason: why('cancel'),
            onSelect: () => command.mutate('cancel'),
          },
          {
            label: <Label icon={GitFork} text="Fork …" why={why('fork')} />,
            disabledReason: why('fork'),
            onSelect: () => setOpen('fork'),
          },
          {
            label: <Label icon={Camera} text="Snapshot" why={why('snapshot')} />,
            disabledReason: why('snapshot'),
            onSelect: () => save.mutate(),
          },
          {
            kind: 'danger',
            label: <Label icon={Power} text="Release …" why={why('release')} />,
            disabledReason: why('release'),
            onSelect: () => setOpen('release'),
          },
          ...(isAdmin
            ? [
                {
                  kind: 'danger' as const,
                  label: <Label icon={Trash2} text="Delete with its journal …" why={undefined} />,
                  onSelect: () => setOpen('delete'),
                },
              ]
            : []),
        ]}
      />
      <Confirm
        open={open === 'release'}
        onOpenChange={() => setOpen(undefined)}
        title={`Release @${session.identity.handle}?`}
        action="Release the session"
        isBusy={command.isPending}
        onConfirm={() => command.mutate('release')}
      >
        The session ends. Its turn is canceled, its open approvals are closed, and{' '}
        {session.queue.length === 0
          ? 'messages that it has not read fail'
          : `the ${session.queue.length} messages in its queue fail`}
        . Its journal is kept.
      </Confirm>
      <Confirm
        open={open === 'delete'}
        onOpenChange={() => setOpen(undefined)}
        title={`Delete @${session.identity.handle}?`}
        action="Delete the session"
        isBusy={drop.isPending}
        onConfirm={() => drop.mutate()}
      >
        The session ends at once, and is deleted with its journal and its deliveries. This cannot be
        undone.
      </Confirm>
      {open === 'fork' ? (
        <NewSession
          title={`Fork @${session.identity.handle}`}
          about="A new session continues from what this one has done up to its last turn."
          handle={`${session.identity.handle}-2`}
          create={(handle) => client.sessions.fork(session.id, { handle })}
          onClose={() => setOpen(undefined)}
        />
      ) : null}
      {snapshot === undefined ? null : (
        <NewSession
          title="The snapshot is saved"
          about={
            <>
              Its id is <Id id={snapshot.id} label="snapshot id" />. Sessions that start from it
              continue from what this one has done up to event {snapshot.seq}.
            </>
          }
          handle={`${session.identity.handle}-2`}
          create={(handle) =>
            client.sessions.create({ harness: session.harness, handle, fromSnapshot: snapshot.id })
          }
          onClose={() => setSnapshot(undefined)}
        />
      )}
    </>
  );
}

interface LabelProps {
  readonly icon: LucideIcon;
  readonly text: string;
  readonly why: string | undefined;
}

function Label({ icon: Icon, text, why }: LabelProps) {
  return (
    <span className="flex max-w-72 items-start gap-2 py-1">
      <Icon aria-hidden size={14} className="mt-0.5 shrink-0" />
      <span>
        {text}
        {why === undefined ? null : <span className="block text-xs">{why}</span>}
      </span>
    </span>
  );
}

interface NewSessionProps {
  readonly title: string;
  readonly about: React.ReactNode;
  /** What is proposed. */
  readonly handle: string;
  readonly create: (handle: string) => Promise<Session>;
  readonly onClose: () => void;
}

function NewSession({ title, about, handle: proposed, create, onClose }: NewSessionProps) {
  const [, navigate] = useLocation();
  const [handle, setHandle] = useState(proposed);
  const start = useMutation({
    mutationFn: () => create(handle),
    onSuccess: (session) => {
      sessionChanged(session);
      onClose();
      navigate(`/sessions/${session.id}`);
    },
  });
  return (
    <FormDialog
      title={title}
      width="sm"
      action="Start the session"
      isDisabled={start.isPending}
      onSubmit={() => start.mutate()}
      onClose={onClose}
    >
      <p className="text-sm text-muted">{about}</p>
      <Field label="Handle of the new session">
        {(ids) => (
          <Input
            {...ids}
            required
            pattern="[a-z0-9][a-z0-9._\-]{0,63}"
            value={handle}
            onChange={(event) => setHandle(event.target.value)}
          />
        )}
      </Field>
      {start.error === null ? null : (
        <ErrorNotice title="The session could not be started" error={start.error} />
      )}
    </FormDialog>
  );
}
