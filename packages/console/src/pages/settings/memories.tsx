/** What agents remember across conversations, by namespace. */
import { defined, type Memory } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { queries } from '../../api/queries.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Input } from '../../ui/form.tsx';
import { Empty, ErrorNotice, errorText, Loading } from '../../ui/notice.tsx';
import { Confirm } from '../../ui/overlay.tsx';
import { toast } from '../../ui/toast.tsx';
import { shortId, Time } from '../../ui/values.tsx';

const sourceWords: Readonly<Record<Memory['source'], string>> = {
  run: 'from a run',
  tool: 'by a tool call',
  api: 'by the API',
};

export function Memories() {
  const [search, setSearch] = useSearchParams();
  const namespace = search.get('namespace') ?? undefined;
  const q = search.get('q') ?? undefined;
  const mayDelete = useMay('runs');
  const memories = useListing(['memories', namespace ?? null, q ?? null], (options) =>
    client.memories.list({ ...defined({ namespace, q }), limit: 100 }, options),
  );
  const [isClearing, setClearing] = useState(false);
  const onDeleted = (text: string) => {
    toast(text);
    void queries.invalidateQueries({ queryKey: ['memories'] });
  };
  const clear = useMutation({
    mutationFn: (name: string) => client.memories.clear(name),
    onSuccess: () => {
      setClearing(false);
      onDeleted('The namespace is empty.');
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  const { items } = memories;
  return (
    <>
      <form
        // Its fields start with what the address says.
        key={search.toString()}
        className="flex flex-wrap items-end gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          const next = new URLSearchParams();
          for (const name of ['namespace', 'q']) {
            const value = form.get(name);
            if (typeof value === 'string' && value.trim() !== '') next.set(name, value.trim());
          }
          setSearch(next);
        }}
      >
        <label className="flex flex-1 basis-40 flex-col gap-0.5 text-xs text-muted">
          Namespace
          <Input name="namespace" placeholder="all" defaultValue={namespace} autoComplete="off" />
        </label>
        <label className="flex flex-[2] basis-52 flex-col gap-0.5 text-xs text-muted">
          Search
          <Input name="q" placeholder="words" defaultValue={q} autoComplete="off" />
        </label>
        <Button type="submit">Search</Button>
        {namespace !== undefined && mayDelete ? (
          <Button kind="danger" onClick={() => setClearing(true)}>
            Clear the namespace
          </Button>
        ) : null}
      </form>
      {items === undefined ? (
        memories.error === null ? (
          <Loading />
        ) : (
          <ErrorNotice
            title="The memories could not be loaded"
            error={memories.error}
            onRetry={memories.reload}
          />
        )
      ) : items.length === 0 ? (
        <Empty
          title={
            namespace === undefined && q === undefined
              ? 'Nothing is remembered'
              : 'No memory is found'
          }
        >
          Runs with a memory write here what later runs of the same namespace should know.
        </Empty>
      ) : (
        <ul aria-label="Memories" className="flex flex-col rounded border border-line bg-surface">
          {items.map((memory) => (
            <MemoryRow
              key={memory.id}
              memory={memory}
              mayDelete={mayDelete}
              onDeleted={() => onDeleted('The memory is deleted.')}
            />
          ))}
        </ul>
      )}
      {memories.hasMore ? (
        <div>
          <Button disabled={memories.isLoadingMore} onClick={memories.loadMore}>
            Show more
          </Button>
        </div>
      ) : null}
      <Confirm
        open={isClearing}
        onOpenChange={setClearing}
        title={`Delete all memories of ${namespace ?? ''}?`}
        action="Delete them all"
        isBusy={clear.isPending}
        onConfirm={() => {
          if (namespace !== undefined) clear.mutate(namespace);
        }}
      >
        Runs of this namespace start without them. This cannot be undone.
      </Confirm>
    </>
  );
}

interface MemoryRowProps {
  readonly memory: Memory;
  readonly mayDelete: boolean;
  readonly onDeleted: () => void;
}

function MemoryRow({ memory, mayDelete, onDeleted }: MemoryRowProps) {
  const { id, namespace, text, runId, source, createdAt, expiresAt, score } = memory;
  const [isAsked, setAsked] = useState(false);
  const remove = useMutation({
    mutationFn: () => client.memories.delete(id),
    onSuccess: onDeleted,
    onError: (error) => toast(errorText(error), 'error'),
  });
  return (
    <li className="flex flex-wrap items-start gap-x-4 gap-y-2 border-b border-line px-4 py-2.5 last:border-b-0">
      <div className="flex min-w-0 flex-1 basis-72 flex-col gap-1">
        <p className="text-sm break-words whitespace-pre-wrap">
          <SafeText text={text} maxLength={600} />
        </p>
        <div className="flex flex-wrap gap-x-3 text-xs text-muted">
          <Link
            href={`/settings/memories?namespace=${encodeURIComponent(namespace)}`}
            className="underline"
          >
            <SafeText text={namespace} />
          </Link>
          <span>
            {sourceWords[source]}, <Time at={createdAt} />
          </span>
          {runId === undefined ? null : (
            <Link href={`/runs/${runId}`} title={runId} className="font-mono underline">
              {shortId(runId)}
            </Link>
          )}
          {expiresAt === undefined ? null : (
            <span>
              expires <Time at={expiresAt} />
            </span>
          )}
          {score === undefined ? null : <span>{Math.round(score * 100)} % of the words</span>}
        </div>
      </div>
      {mayDelete ? (
        <Button size="sm" kind="danger" onClick={() => setAsked(true)}>
          Delete
        </Button>
      ) : null}
      <Confirm
        open={isAsked}
        onOpenChange={setAsked}
        title="Delete this memory?"
        action="Delete the memory"
        isBusy={remove.isPending}
        onConfirm={() => remove.mutate()}
      >
        Later runs do not find it any more.
      </Confirm>
    </li>
  );
}
