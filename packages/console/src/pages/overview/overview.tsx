/** What happened over a time, and what to do about it. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Suspense } from 'react';
import { Link, useSearchParams } from 'wouter';
import { client } from '../../api/client.ts';
import { Checklist } from '../../frame/checklist/checklist.tsx';
import { setPreferences, usePreferences } from '../../preferences.ts';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { PageHeader } from '../../ui/layout.tsx';
import { lazyPart } from '../../ui/lazy-part.ts';
import { Empty, ErrorNotice, Loading } from '../../ui/notice.tsx';
import { Ago } from '../../ui/values.tsx';
import { Numbers } from './numbers.tsx';
import { queryOf, type Range, rangeOf, ranges } from './ranges.ts';
import { Tables } from './tables.tsx';
import { isQuiet } from './words.ts';

const Charts = lazyPart(async () => (await import('./charts.tsx')).Charts);

export function Overview() {
  const [search] = useSearchParams();
  const range = rangeOf(search.get('range'));
  const stats = useQuery({
    queryKey: ['stats', range.name],
    queryFn: async ({ signal }) => ({
      range,
      stats: await client.stats.get(queryOf(range, Date.now()), { signal }),
    }),
    placeholderData: keepPreviousData,
  });
  const shown = stats.data;
  return (
    <>
      <PageHeader title="Overview">
        <span role="status" className="text-xs text-muted">
          {stats.isPlaceholderData
            ? `Reading ${range.words} … still showing ${shown?.range.words}`
            : stats.isFetching
              ? 'Refreshing …'
              : ''}
        </span>
        {shown !== undefined && !stats.isFetching && !stats.isError ? (
          <span className="text-xs text-muted">
            Updated <Ago at={stats.dataUpdatedAt} />
          </span>
        ) : null}
        <Ranges chosen={range} />
      </PageHeader>
      <div className="min-h-0 flex-1 overflow-y-auto">
        <div className="mx-auto flex max-w-[2000px] flex-col gap-4 p-4">
          <Checklist />
          {stats.error === null ? null : (
            <ErrorNotice
              title={
                shown === undefined
                  ? 'The statistics could not be read'
                  : 'The statistics could not be refreshed: these are older'
              }
              error={stats.error}
              onRetry={() => void stats.refetch()}
            />
          )}
          {shown !== undefined ? (
            <div className="flex flex-col gap-4" aria-busy={stats.isFetching}>
              <Numbers stats={shown.stats} range={shown.range} />
              {isQuiet(shown.stats.totals) ? (
                <Quiet words={shown.range.words} />
              ) : (
                <>
                  <Suspense fallback={<Loading lines={12} />}>
                    <Charts stats={shown.stats} />
                  </Suspense>
                  <Tables stats={shown.stats} range={shown.range} />
                </>
              )}
            </div>
          ) : stats.error === null ? (
            <Loading lines={12} />
          ) : null}
        </div>
      </div>
    </>
  );
}

function Quiet({ words }: { readonly words: string }) {
  const { checklist } = usePreferences();
  const show = () =>
    setPreferences({ checklist: checklist.filter((mark) => mark !== 'dismissed') });
  return (
    <Empty
      title={`Nothing happened in ${words}`}
      action={
        checklist.includes('dismissed') ? (
          <Button onClick={show}>Show the first steps</Button>
        ) : undefined
      }
    >
      Runs, requests for approvals, tokens and cost appear here over time. The first steps start a
      run with the demo model, which needs no key.
    </Empty>
  );
}

function Ranges({ chosen }: { readonly chosen: Range }) {
  return (
    <nav aria-label="Time" className="flex rounded border border-line-strong bg-surface">
      {ranges.map(({ name, label, words }) => (
        <Link
          key={name}
          href={`/overview?range=${name}`}
          replace
          title={words}
          aria-current={name === chosen.name ? 'true' : undefined}
          className={cx(
            'flex h-7 items-center rounded-sm px-2.5 text-xs font-medium whitespace-nowrap pointer-coarse:h-11 pointer-coarse:px-3',
            name === chosen.name ? 'bg-selected text-text' : 'text-muted hover:text-text',
          )}
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}
