/** Recent decisions: who, what and when. */
import { escapeMisleading } from '@relay/protocol/display';
import type { Approval } from '@relay/protocol/wire';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { VList } from 'virtua';
import { Link } from 'wouter';
import { useAccount } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { cx } from '../../ui/cx.ts';
import { Empty, ErrorNotice, Loading } from '../../ui/notice.tsx';
import { lookOf, toneText } from '../../ui/state.tsx';
import { Time } from '../../ui/values.tsx';
import { nameOf, pathText, summaryOf, verdictOf } from './words.ts';

interface DecidedProps {
  readonly open: string | undefined;
  readonly hrefOf: (id: string) => string;
  readonly isShown: (approval: Approval) => boolean;
}

const endStatuses = ['approved', 'denied', 'expired', 'closed'] as const;

function endOf({ decidedAt, expiresAt, status, requestedAt }: Approval): string {
  return decidedAt ?? (status === 'expired' ? expiresAt : requestedAt);
}

export function Decided({ open, hrefOf, isShown }: DecidedProps) {
  const { data, error, refetch } = useQuery({
    queryKey: ['approvals', 'decided'],
    queryFn: async ({ signal }) => {
      const pages = await Promise.all(
        endStatuses.map((status) =>
          client.approvals.list({ status, limit: 100 }, { signal }).page(),
        ),
      );
      const all = pages.flatMap(({ items }) => items);
      return all.toSorted((one, other) => (endOf(one) < endOf(other) ? 1 : -1));
    },
    placeholderData: keepPreviousData,
  });
  if (error !== null) {
    return (
      <ErrorNotice
        title="The decisions could not be loaded"
        error={error}
        onRetry={() => void refetch()}
      />
    );
  }
  if (data === undefined) return <Loading />;
  const shown = data.filter(isShown);
  if (shown.length === 0) {
    return (
      <Empty title="No decisions yet">
        Every decision about a request is kept here: who decided, what, when and why.
      </Empty>
    );
  }
  return (
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
            {escapeMisleading(tool)}
          </span>
          <span className="min-w-0 truncate font-mono text-xs text-muted">
            {escapeMisleading(summaryOf(approval))}
          </span>
        </span>
        <span className="flex gap-2 text-xs text-muted">
          <span className={cx('shrink-0', toneText[tone])}>
            {verdictOf(approval)}
            {escapeMisleading(who)}
          </span>
          <span className="min-w-0 truncate">{escapeMisleading(pathText(agentPath))}</span>
          <span className="ml-auto shrink-0">
            <Time at={endOf(approval)} />
          </span>
        </span>
      </span>
    </Link>
  );
}
