/** The pause switch and the kill switch of the tenant. */
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { client } from '../../api/client.ts';
import { queries } from '../../api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { Section } from '../../ui/layout.tsx';
import { ErrorNotice, errorText, Loading, Note } from '../../ui/notice.tsx';
import { Confirm } from '../../ui/overlay.tsx';
import { toast } from '../../ui/toast.tsx';
import { formatCount } from '../../ui/values.tsx';
import { useTenant } from './use-tenant.ts';

export function PauseAndStop() {
  const tenant = useTenant();
  const [asked, setAsked] = useState<'pause' | 'cancel'>();
  const pause = useMutation({
    mutationFn: (paused: boolean) => client.tenant.update({ paused }),
    onSuccess: (changed) => {
      setAsked(undefined);
      queries.setQueryData(['tenant'], changed);
      toast(changed.paused ? 'The tenant is paused.' : 'The tenant continues.');
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  const cancel = useMutation({
    mutationFn: () => client.runs.cancelAll({ all: true }),
    onSuccess: ({ canceled }) => {
      setAsked(undefined);
      toast(`${formatCount(canceled)} ${canceled === 1 ? 'run is' : 'runs are'} canceled.`);
      void queries.invalidateQueries({ queryKey: ['tenant'] });
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  if (tenant.data === undefined) {
    if (tenant.error === null) return <Loading />;
    return (
      <ErrorNotice
        title="The state of the tenant could not be loaded"
        error={tenant.error}
        onRetry={() => void tenant.refetch()}
      />
    );
  }
  const { paused, openRuns } = tenant.data;
  const open = openRuns.queued + openRuns.running + openRuns.waiting;
  return (
    <>
      {paused ? (
        <Note
          tone="waiting"
          actions={
            <Button disabled={pause.isPending} onClick={() => pause.mutate(false)}>
              Continue
            </Button>
          }
        >
          <strong className="font-semibold">The tenant is paused.</strong> No run starts or
          continues.
        </Note>
      ) : null}
      <Section title="Pause">
        <div className="flex flex-col items-start gap-3 text-sm">
          <p>
            Pausing stops new work and keeps everything. New runs are refused, and runs under way
            stop after their current step; messages to sessions wait, and actions are refused.
            Approvals can be decided, and take effect when the tenant continues. What a program of a
            session has begun already goes on.
          </p>
          {paused ? null : (
            <Button kind="danger" onClick={() => setAsked('pause')}>
              Pause the tenant
            </Button>
          )}
        </div>
      </Section>
      <Section title="Stop all runs">
        <div className="flex flex-col items-start gap-3 text-sm">
          <p>
            Canceling ends all open runs for good: model calls and tools are aborted, and their
            approvals are closed. New runs can still be started; pause first to prevent that.
          </p>
          <p role="status" className="text-muted">
            Open now: {formatCount(openRuns.running)} running, {formatCount(openRuns.queued)}{' '}
            queued, {formatCount(openRuns.waiting)} waiting for a person.
          </p>
          <Button kind="danger" disabled={open === 0} onClick={() => setAsked('cancel')}>
            Cancel all runs
          </Button>
          {open === 0 ? <p className="text-xs text-muted">No run is open.</p> : null}
        </div>
      </Section>
      {asked === 'pause' ? (
        <Confirm
          open
          onOpenChange={() => setAsked(undefined)}
          title="Pause the tenant?"
          action="Pause the tenant"
          typed="pause"
          isBusy={pause.isPending}
          onConfirm={() => pause.mutate(true)}
        >
          All agents of this tenant stop working until somebody continues it here. Nothing is lost.
        </Confirm>
      ) : null}
      {asked === 'cancel' ? (
        <Confirm
          open
          onOpenChange={() => setAsked(undefined)}
          title={`Cancel ${formatCount(open)} ${open === 1 ? 'run' : 'runs'}?`}
          action="Cancel all runs"
          typed="cancel all"
          dismiss="Keep them"
          isBusy={cancel.isPending}
          onConfirm={() => cancel.mutate()}
        >
          They end as canceled, also those of other people. This cannot be undone; a canceled run
          can only be forked or started again.
        </Confirm>
      ) : null}
    </>
  );
}
