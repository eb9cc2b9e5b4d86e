/** Whether the trail is complete and unchanged, also against a head that was saved earlier. */
import type { AuditHead } from '@relay/protocol/wire';
import { useMutation, useQuery } from '@tanstack/react-query';
import { LoaderCircle, ShieldAlert, ShieldCheck } from 'lucide-react';
import { useState } from 'react';
import { client } from '../../api/client.ts';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Field, TextArea } from '../../ui/form.tsx';
import { errorText, Note } from '../../ui/notice.tsx';
import { Dialog } from '../../ui/overlay.tsx';
import { CopyButton, formatCount, Time } from '../../ui/values.tsx';
import { parseHead } from './head.ts';

export function Verification() {
  const [isOpen, setOpen] = useState(false);
  const verdict = useQuery({
    queryKey: ['audit-verdict'],
    queryFn: ({ signal }) => client.audit.verify(undefined, { signal }),
    staleTime: 0,
  });
  const { data, error, isFetching, dataUpdatedAt } = verdict;
  const isBad = data?.ok === false;
  const Icon = data === undefined || isFetching ? LoaderCircle : isBad ? ShieldAlert : ShieldCheck;
  return (
    <div
      className={cx(
        'flex min-h-11 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-1.5 text-sm',
        isBad || error !== null
          ? 'bg-failed-soft text-failed'
          : data === undefined
            ? 'text-muted'
            : 'text-done',
      )}
    >
      <Icon aria-hidden size={16} className="shrink-0" />
      <span role="status" className="min-w-0 flex-1 basis-56">
        {error !== null ? (
          `The trail could not be verified: ${errorText(error)}`
        ) : data === undefined ? (
          'Verifying every entry …'
        ) : data.firstBad === undefined && data.ok ? (
          <>
            All {formatCount(data.entries)} entries verified, <Time at={dataUpdatedAt} />
          </>
        ) : (
          <>
            The trail was changed.{' '}
            {data.firstBad === undefined
              ? null
              : `Entry ${data.firstBad.seq}: ${data.firstBad.problem}. `}
            {formatCount(data.entries)} entries before it are verified.
          </>
        )}
      </span>
      <Button size="sm" disabled={isFetching} onClick={() => void verdict.refetch()}>
        Verify again
      </Button>
      <Button size="sm" onClick={() => setOpen(true)}>
        Head
      </Button>
      {isOpen ? <Head onClose={() => setOpen(false)} /> : null}
    </div>
  );
}

function Head({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState('');
  const head = useQuery({
    queryKey: ['audit-head'],
    queryFn: ({ signal }) => client.audit.head({ signal }),
    staleTime: 0,
  });
  const saved = parseHead(text);
  const verify = useMutation({
    mutationFn: (given: Pick<AuditHead, 'seq' | 'hash'>) => client.audit.verify(given),
  });
  const current =
    head.data === undefined ? '' : JSON.stringify({ seq: head.data.seq, hash: head.data.hash });
  return (
    <Dialog
      open
      onOpenChange={(isOpen) => {
        if (!isOpen) onClose();
      }}
      title="The head of the trail"
    >
      <div className="flex flex-col gap-4 text-sm">
        <p className="text-muted">
          No database can prove that its end was not cut off. Keep the head somewhere else, and
          verify against it later: everything up to it must then still be there, unchanged.
        </p>
        <div className="flex flex-col gap-1">
          <h3 className="font-medium">Now</h3>
          {head.error === null ? (
            <div className="flex min-h-14 items-start gap-1 rounded bg-sunken p-2 font-mono text-xs break-all">
              <span className="min-w-0 flex-1">{current}</span>
              {current === '' ? null : <CopyButton text={current} label="head" />}
            </div>
          ) : (
            <Note tone="failed">{errorText(head.error)}</Note>
          )}
        </div>
        <form
          className="flex flex-col gap-2"
          onSubmit={(event) => {
            event.preventDefault();
            if (saved !== undefined) verify.mutate(saved);
          }}
        >
          <Field
            label="A head that you have kept"
            hint="As it was copied here, or as the last line of an export has it"
            error={
              text.trim() !== '' && saved === undefined
                ? 'This is not a head: it has a seq and a hash of 64 digits.'
                : undefined
            }
          >
            {(field) => (
              <TextArea
                {...field}
                rows={3}
                className="font-mono text-xs"
                spellCheck={false}
                value={text}
                onChange={(event) => {
                  verify.reset();
                  setText(event.target.value);
                }}
              />
            )}
          </Field>
          <div>
            <Button type="submit" disabled={saved === undefined || verify.isPending}>
              {verify.isPending ? 'Verifying …' : 'Verify against it'}
            </Button>
          </div>
          {verify.error === null ? null : <Note tone="failed">{errorText(verify.error)}</Note>}
          {verify.data === undefined ? null : verify.data.ok ? (
            <Note tone="done">
              The trail still contains this head, and all {formatCount(verify.data.entries)} entries
              are unchanged.
            </Note>
          ) : (
            <Note tone="failed">
              {verify.data.firstBad === undefined
                ? 'The trail was changed.'
                : `Entry ${verify.data.firstBad.seq}: ${verify.data.firstBad.problem}`}
            </Note>
          )}
        </form>
      </div>
    </Dialog>
  );
}
