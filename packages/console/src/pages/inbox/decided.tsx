/** Recent decisions: who, what and when. */
import { type Approval, type ApprovalsQuery, defined } from '@relay/protocol/wire';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { VList } from 'virtua';
import { Link } from 'wouter';
import { useAccount } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { Marked } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Empty, ErrorNotice, Loading } from '../../ui/notice.tsx';
import { lookOf, toneText } from '../../ui/state.tsx';
import { Time } from '../../ui/values.tsx';
import type { Filter } from './filters.tsx';
import { nameOf, pathText, requestText, verdictOf } from './words.ts';

interface DecidedProps {
  readonly open: string | undefined;
  readonly hrefOf: (id: string) => string;
  readonly filter: Filter;
}

function endOf({ decidedAt, expiresAt, status, requestedAt }: Approval): string {
  return decidedAt ?? (status === 'expired' ? expiresAt : requestedAt);
}

export function Decided({ open, hrefOf, filter: { tool, kind, includes } }: DecidedProps) {
  const query: ApprovalsQuery = {
    status: ['approved', 'denied', 'expired', 'closed'],
    limit: 100,
    ...defined({ tool, kind }),
  };
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(
    {
      queryKey: ['approvals', 'decided', query],
      queryFn: ({ pageParam, signal }) => client.approvals.list(query, { signal }).page(pageParam),
      initialPageParam: undefined as string | undefined,
      getNextPageParam: ({ nextCursor }) => nextCursor,
      placeholderData: keepPreviousData,
    },
  );
  const shown = useMemo(
    () =>
      (data?.pages ?? [])
        .flatMap(({ items }) => items)
        .filter(includes)
        .toSorted((one, other) => (endOf(one) < endOf(other) ? 1 : -1)),
    [data, includes],
  );
  if (error !== null && data === undefined) {
    return (
      <ErrorNotice
        title="The decisions could not be loaded"
        error={error}
        onRetry={() => void refetch()}
      />
    );
  }
  if (data === undefined) return <Loading />;
  if (shown.length === 0 && !hasNextPage) {
    return (
      <Empty title="No decisions yet">
        Every decision about a request is kept here: who decided, what, when and why.
      </Empty>
    );
  }
  return (
    <>
      <VList data={shown} itemSize={56} className="min-h-0 flex-1">
        {(approval) => (
          <DecidedRow
            key={approval.id}
            approval={approval}
            href={hrefOf(approval.id)}
            isOpen={approval.id === open}
          />
        )}
      </VList>
      {hasNextPage ? (
        <div className="border-t border-line p-2 text-center">
          <Button size="sm" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {isFetchingNextPage ? 'Loading …' : 'Load older requests'}
          </Button>
        </div>
      ) : null}
    </>
  );
}

interface DecidedRowProps {
  readonly approval: Approval;
  readonly href: string;
  readonly isOpen: boolean;
}

function DecidedRow({ approval, href, isOpen }: DecidedRowProps) {
  const { data: account } = useAccount();
  const { tool, status, decidedBy, agentPath } = approval;
  const { icon: Icon, tone } = lookOf(status);
  const who = decidedBy === undefined ? '' : ` by ${nameOf(decidedBy, account)}`;
  return (
    <Link
      href={href}
      aria-current={isOpen ? 'true' : undefined}
      className={cx(
        'flex h-14 items-center gap-3 border-b border-line px-3 -outline-offset-2',
        isOpen ? 'bg-selected' : 'hover:bg-hover',
      )}
    >
      <Icon aria-hidden size={16} className={cx('shrink-0', toneText[tone])} />
      <span className="flex min-w-0 flex-1 flex-col gap-0.5">
        <span className="flex items-baseline gap-2">
          <span className="max-w-[45%] shrink-0 truncate text-sm font-semibold">
            <Marked text={tool} />
          </span>
          <span className="min-w-0 truncate font-mono text-xs text-muted">
            <Marked text={requestText(approval)} />
          </span>
        </span>
        <span className="flex gap-2 text-xs text-muted">
          <span className={cx('shrink-0', toneText[tone])}>
            {verdictOf(approval)}
            <Marked text={who} />
          </span>
          <span className="min-w-0 truncate">
            <Marked text={pathText(agentPath)} />
          </span>
          <span className="ml-auto shrink-0">
            <Time at={endOf(approval)} />
          </span>
        </span>
      </span>
    </Link>
  );
}
