/** What can be done with a run. */
import type { Run } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { Ban, Code, Ellipsis, GitFork, MessageSquare } from 'lucide-react';
import { Suspense, useState } from 'react';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { queries } from '../../../api/queries.ts';
import { Button, buttonClass } from '../../../ui/button.tsx';
import { lazyPart } from '../../../ui/lazy-part.ts';
import { errorText } from '../../../ui/notice.tsx';
import { toast } from '../../../ui/toast.tsx';
import { copyText } from '../../../ui/values.tsx';
import { codeSamples } from './code-sample.ts';
import type { JournalState } from '../../../transcript/journal.ts';

const overlay = () => import('../../../ui/overlay.tsx');
const Confirm = lazyPart(async () => (await overlay()).Confirm);
const Menu = lazyPart(async () => (await overlay()).Menu);
const dialogs = () => import('./run-dialogs.tsx');
const ForkDialog = lazyPart(async () => (await dialogs()).ForkDialog);
const MessageDialog = lazyPart(async () => (await dialogs()).MessageDialog);

interface RunActionsProps {
  readonly run: Run;
  readonly journal: JournalState | undefined;
  readonly cursor: number;
}

type Open = 'cancel' | 'fork' | 'message';

export function RunActions({ run, journal, cursor }: RunActionsProps) {
  const mayRun = useMay('runs');
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const isOver = ['completed', 'failed', 'canceled'].includes(run.status);
  const cancel = useMutation({
    mutationFn: () => client.runs.cancel(run.id),
    onSuccess: (canceled) => {
      queries.setQueryData(['run', run.id], canceled);
      close();
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  const resume = useMutation({
    mutationFn: () => client.runs.resume(run.id),
    onSuccess: () => toast('The server looks at the run again'),
    onError: (error) => toast(errorText(error), 'error'),
  });
  const created = journal?.fold.at(1);
  const builtin =
    created?.type === 'run.created'
      ? created.tools.filter(
          (tool) => created.functions?.every(({ name }) => name !== tool) ?? true,
        )
      : [];
  const samples = codeSamples(run, location.origin, builtin);
  const more = [
    ...samples.map(({ name, code }) => ({
      label: (
        <>
          <Code aria-hidden size={14} /> Copy {name}
        </>
      ),
      onSelect: () => void copyText(code).then(() => toast('Copied')),
    })),
    ...(mayRun && !isOver ? [{ label: 'Resume', onSelect: () => resume.mutate() }] : []),
  ];

  return (
    <div className="flex flex-wrap items-center gap-1.5">
      {mayRun && !isOver ? (
        <>
          <Button size="sm" onClick={() => setOpen('message')}>
            <MessageSquare aria-hidden size={14} /> Message
          </Button>
          <Button size="sm" kind="danger" onClick={() => setOpen('cancel')}>
            <Ban aria-hidden size={14} /> Cancel
          </Button>
        </>
      ) : null}
      {mayRun ? (
        <Button size="sm" onClick={() => setOpen('fork')}>
          <GitFork aria-hidden size={14} /> Fork here
        </Button>
      ) : null}
      <Suspense fallback={<span className="h-7 w-8" />}>
        <Menu
          trigger={
            <button
              type="button"
              aria-label="More actions"
              className={buttonClass('plain', 'sm')}
            />
          }
          triggerLabel={<Ellipsis aria-hidden size={16} />}
          items={more}
        />
      </Suspense>
      <Suspense>
        {open === 'cancel' ? (
          <Confirm
            open
            onOpenChange={close}
            title="Cancel this run?"
            action="Cancel the run"
            isBusy={cancel.isPending}
            onConfirm={() => cancel.mutate()}
          >
            The model and all tools of the run are stopped, and its approvals are closed. What has
            happened already is not undone.
          </Confirm>
        ) : null}
        {open === 'fork' && journal !== undefined ? (
          <ForkDialog run={run} journal={journal} cursor={cursor} onClose={close} />
        ) : null}
        {open === 'message' ? <MessageDialog run={run} onClose={close} /> : null}
      </Suspense>
    </div>
  );
}
