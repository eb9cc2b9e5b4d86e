/** All runs: newest first, live, filtered by what is in the address. */
import type { Run } from '@relay/protocol/wire';
import { Link2, Play } from 'lucide-react';
import { Suspense, useMemo, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';
import { Link, useLocation, useSearchParams } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { PageHeader } from '../../../ui/layout.tsx';
import { lazyPart } from '../../../ui/lazy-part.ts';
import { Empty, ErrorNotice, errorText, Loading } from '../../../ui/notice.tsx';
import { StatusBadge } from '../../../ui/state.tsx';
import { toast } from '../../../ui/toast.tsx';
import { Ago, copyText, formatCost, formatCount } from '../../../ui/values.tsx';
import { Duration } from './duration.tsx';
import { Filters } from './filters.tsx';
import {
  addressOf,
  filterOf,
  inputText,
  isEmpty,
  isSameView,
  type RunFilter,
  savedViews,
} from './run-filter.ts';
import { useRunList } from './use-run-list.ts';

const StartRun = lazyPart(async () => (await import('./start-run.tsx')).StartRun);

/** Rows that are this close to the end load the next page. */
const loadAheadPx = 1_000;

export function RunList() {
  const [params, setParams] = useSearchParams();
  const address = params.toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(address)), [address]);
  const setFilter = (next: RunFilter) => setParams(addressOf(next));
  const list = useRunList(filter);
  const mayRun = useMay('runs');
  const [isStarting, setStarting] = useState(false);
  const [, navigate] = useLocation();
  const view = useRef<VListHandle>(null);

  const startDemo = async () => {
    try {
      const { id } = await client.runs.sendMessage({ message: 'notify hello', model: 'demo' });
      navigate(`/runs/${id}`);
    } catch (error) {
      toast(errorText(error), 'error');
    }
  };

  const loadMore = () => {
    const { current } = view;
    if (current === null || !list.hasNextPage || list.isFetchingNextPage) return;
    const { scrollSize, scrollOffset, viewportSize } = current;
    if (scrollSize - scrollOffset - viewportSize < loadAheadPx) void list.fetchNextPage();
  };

  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <PageHeader title="Runs">
        <Button
          kind="quiet"
          onClick={() =>
            void copyText(location.href).then(() => toast('The link to this view was copied'))
          }
        >
          <Link2 aria-hidden size={16} />
          <span className="max-sm:sr-only">Copy link to this view</span>
        </Button>
        {mayRun ? (
          <Button kind="primary" onClick={() => setStarting(true)}>
            <Play aria-hidden size={14} />
            Start a run
          </Button>
        ) : null}
      </PageHeader>
      <nav aria-label="Views" className="flex gap-1 overflow-x-auto border-b border-line px-3 py-1">
        {savedViews.map(({ name, filter: saved }) => (
          <Link
            key={name}
            href={`/runs?${addressOf(saved).toString()}`}
            aria-current={isSameView(saved, filter) ? 'true' : undefined}
            className={cx(
              'flex h-7 shrink-0 items-center rounded px-2 text-sm pointer-coarse:h-11',
              isSameView(saved, filter)
                ? 'bg-selected font-medium text-text'
                : 'text-muted hover:bg-hover hover:text-text',
            )}
          >
            {name}
          </Link>
        ))}
      </nav>
      <Filters filter={filter} onChange={setFilter} />
      {list.error !== null && list.runs.length === 0 ? (
        <ErrorNotice
          title="The runs could not be loaded"
          error={list.error}
          onRetry={() => void list.refetch()}
        />
      ) : list.isPending ? (
        <Loading lines={10} />
      ) : list.runs.length === 0 ? (
        isEmpty(filter) ? (
          <Empty
            title="No runs yet"
            action={
              mayRun ? (
                <Button kind="primary" onClick={() => void startDemo()}>
                  Start a demo run
                </Button>
              ) : undefined
            }
          >
            Every execution of an agent is listed here, while it works and after it has ended. The
            demo run needs no provider key: it asks for an approval and then sends a note.
          </Empty>
        ) : (
          <Empty
            title="No run matches"
            action={<Button onClick={() => setFilter({ statuses: [] })}>Remove all filters</Button>}
          >
            No run has these properties. New runs appear here by themselves.
          </Empty>
        )
      ) : (
        <>
          <div
            aria-hidden
            className={cx(columns, 'hidden h-8 border-b border-line text-xs text-muted md:grid')}
          >
            <span>Status</span>
            <span>Agent</span>
            <span>Input</span>
            <span className="max-lg:hidden">Model</span>
            <span className="text-right">Duration</span>
            <span className="text-right max-lg:hidden">Tokens</span>
            <span className="text-right max-lg:hidden">Cost</span>
            <span className="text-right">Started</span>
          </div>
          <VList
            ref={view}
            data={list.runs}
            onScroll={loadMore}
            onResize={loadMore}
            className="flex-1"
          >
            {(run) => <RunRow key={run.id} run={run} />}
          </VList>
          <div role="status" className="sr-only">
            {list.isFetchingNextPage ? 'Loading more runs' : ''}
          </div>
        </>
      )}
      {isStarting ? (
        <Suspense>
          <StartRun onClose={() => setStarting(false)} />
        </Suspense>
      ) : null}
    </div>
  );
}

const columns =
  'grid items-center gap-x-3 px-4 grid-cols-[104px_minmax(80px,140px)_minmax(0,1fr)_88px_88px] lg:grid-cols-[104px_minmax(80px,140px)_minmax(0,1fr)_minmax(60px,160px)_88px_72px_64px_88px]';

function RunRow({ run }: { readonly run: Run }) {
  const { input_tokens: inputTokens, output_tokens: outputTokens } = run.usage;
  const tokens = inputTokens + outputTokens;
  return (
    <Link
      href={`/runs/${run.id}`}
      className="block border-b border-line hover:bg-hover focus-visible:-outline-offset-2"
    >
      <div className={cx(columns, 'hidden h-9 text-sm md:grid')}>
        <span>
          <StatusBadge status={run.status} />
        </span>
        <span className="truncate text-muted">{run.agent}</span>
        <span className="truncate">
          <SafeText text={inputText(run)} />
        </span>
        <span className="truncate text-muted max-lg:hidden">{run.model}</span>
        <span className="text-right text-muted">
          <Duration run={run} />
        </span>
        <span
          className="text-right text-muted max-lg:hidden"
          title={`${formatCount(inputTokens)} in, ${formatCount(outputTokens)} out`}
        >
          {tokens === 0 ? '' : formatCount(tokens)}
        </span>
        <span className="text-right text-muted max-lg:hidden">
          {run.costUsd === undefined ? '' : formatCost(run.costUsd)}
        </span>
        <span className="text-right text-muted">
          <Ago at={run.createdAt} />
        </span>
      </div>
      <div className="flex min-h-14 flex-col justify-center gap-1 px-4 py-2 md:hidden">
        <span className="flex items-center gap-2">
          <StatusBadge status={run.status} />
          <span className="truncate text-sm">
            <SafeText text={inputText(run)} />
          </span>
        </span>
        <span className="flex gap-2 text-xs text-muted">
          <span className="truncate">{run.agent}</span>
          <span className="truncate">{run.model}</span>
          <Duration run={run} />
          <span className="ml-auto">
            <Ago at={run.createdAt} />
          </span>
        </span>
      </div>
    </Link>
  );
}
